// The HTTP transport for verify_ssl=False. Verification is on everywhere else.
package main

import (
	"crypto/tls"
	"net/http"
)

func unverifiedTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	return t
}
