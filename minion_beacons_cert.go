// The beacon cert_info: certificates that are about to expire.
package main

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"time"
)

// certNotifyDays is how long before its end a certificate is told of.
const certNotifyDays = 45

func checkCertInfo(conf *Map, _ []any) string {
	if !conf.Has("files") {
		return "Configuration for cert_info beacon must contain files option."
	}
	return ""
}

func lookCertInfo(_ context.Context, c *Call, conf *Map, _ []any) ([]*Map, error) {
	days := func(m *Map, def float64) float64 {
		if n, ok := toFloat(m.Value("notify_days")); ok && m.Has("notify_days") {
			return n
		}
		return def
	}
	general := days(conf, certNotifyDays)
	found := &List{}
	for _, item := range toItems(conf.Value("files")) {
		limit := general
		if m, ok := item.(*Map); ok {
			if m.Len() == 0 {
				continue
			}
			k, v := m.At(0)
			opt, _ := v.(*Map)
			item, limit = k, days(opt, general)
		}
		path := Str(item)
		cert, err := readCertificate(path)
		if err != nil {
			c.Log.Error(fmt.Sprintf("Unable to load certificate %s (%s)", path, err))
			continue
		}
		// Whole days, counted down as Python's timedelta does.
		left := time.Until(cert.NotAfter)
		whole := float64(left / (24 * time.Hour))
		if left < 0 && left%(24*time.Hour) != 0 {
			whole--
		}
		if limit < 0 || whole <= limit {
			found.Append(certificateData(path, cert))
		}
	}
	if found.Len() == 0 {
		return nil, nil
	}
	return []*Map{NewMap("certificates", found)}, nil
}

func readCertificate(path string) (*x509.Certificate, error) {
	p, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(p); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" || block.Type == "X509 CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, fmt.Errorf("there is no certificate in PEM format in it")
}

// certificateData shows a certificate as Salt's beacon does.
func certificateData(path string, cert *x509.Certificate) *Map {
	issuer, issuerText := nameParts(cert.Issuer)
	subject, subjectText := nameParts(cert.Subject)
	raw := func(t time.Time) string { return t.UTC().Format("20060102150405Z") }
	shown := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
	extensions := &List{}
	for _, e := range cert.Extensions {
		name, text := extensionText(e, cert)
		extensions.Append(NewMap("ext_name", name, "ext_data", text))
	}
	return NewMap("cert_path", path, "issuer", issuerText, "issuer_dict", issuer,
		"notAfter_raw", raw(cert.NotAfter), "notAfter", shown(cert.NotAfter),
		"notBefore_raw", raw(cert.NotBefore), "notBefore", shown(cert.NotBefore),
		"serial_number", FromGo(cert.SerialNumber), "signature_algorithm", signatureName(cert.SignatureAlgorithm),
		"subject", subjectText, "subject_dict", subject, "version", int64(cert.Version-1),
		"extensions", extensions, "has_expired", time.Now().After(cert.NotAfter))
}

// nameParts are the parts of a name, by OpenSSL's short names.
func nameParts(n pkix.Name) (*Map, string) {
	short := map[string]string{"2.5.4.3": "CN", "2.5.4.4": "SN", "2.5.4.5": "serialNumber", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST",
		"2.5.4.9": "street", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.12": "title", "2.5.4.17": "postalCode", "2.5.4.42": "GN",
		"1.2.840.113549.1.9.1": "emailAddress", "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID"}
	parts := &Map{}
	var texts []string
	for _, atv := range n.Names {
		key := short[atv.Type.String()]
		if key == "" {
			key = "UNDEF"
		}
		value := fmt.Sprint(atv.Value)
		parts.Set(key, value)
		texts = append(texts, key+"=\""+value+"\"")
	}
	return parts, strings.Join(texts, ",")
}

// signatureName is OpenSSL's name of an algorithm.
func signatureName(a x509.SignatureAlgorithm) string {
	switch a {
	case x509.MD5WithRSA, x509.SHA1WithRSA, x509.SHA256WithRSA, x509.SHA384WithRSA, x509.SHA512WithRSA:
		hash, _, _ := strings.Cut(a.String(), "-")
		return strings.ToLower(hash) + "WithRSAEncryption"
	case x509.SHA256WithRSAPSS, x509.SHA384WithRSAPSS, x509.SHA512WithRSAPSS:
		return "rsassaPss"
	case x509.ECDSAWithSHA1, x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512:
		return "ecdsa-with-" + strings.TrimPrefix(a.String(), "ECDSA-")
	case x509.PureEd25519:
		return "ED25519"
	}
	return a.String()
}

// extensionText is the short name of an extension and what is in it, in the
// words of OpenSSL.
func extensionText(e pkix.Extension, cert *x509.Certificate) (name, text string) {
	switch e.Id.String() {
	case "2.5.29.14":
		return "subjectKeyIdentifier", upperHex(cert.SubjectKeyId)
	case "2.5.29.35":
		return "authorityKeyIdentifier", upperHex(cert.AuthorityKeyId)
	case "2.5.29.19":
		if !cert.IsCA {
			return "basicConstraints", "CA:FALSE"
		}
		if cert.MaxPathLen > 0 || cert.MaxPathLenZero {
			return "basicConstraints", fmt.Sprintf("CA:TRUE, pathlen:%d", cert.MaxPathLen)
		}
		return "basicConstraints", "CA:TRUE"
	case "2.5.29.15":
		var words []string
		for i, word := range []string{"Digital Signature", "Non Repudiation", "Key Encipherment", "Data Encipherment", "Key Agreement",
			"Certificate Sign", "CRL Sign", "Encipher Only", "Decipher Only"} {
			if cert.KeyUsage&(1<<i) != 0 {
				words = append(words, word)
			}
		}
		return "keyUsage", strings.Join(words, ", ")
	case "2.5.29.37":
		return "extendedKeyUsage", extendedUsages(e.Value)
	case "2.5.29.17":
		var words []string
		for _, s := range cert.DNSNames {
			words = append(words, "DNS:"+s)
		}
		for _, ip := range cert.IPAddresses {
			words = append(words, "IP Address:"+ip.String())
		}
		for _, s := range cert.EmailAddresses {
			words = append(words, "email:"+s)
		}
		for _, u := range cert.URIs {
			words = append(words, "URI:"+u.String())
		}
		return "subjectAltName", strings.Join(words, ", ")
	}
	return "UNDEF", upperHex(e.Value)
}

func extendedUsages(der []byte) string {
	var ids []asn1.ObjectIdentifier
	if _, err := asn1.Unmarshal(der, &ids); err != nil {
		return upperHex(der)
	}
	names := map[string]string{"1": "TLS Web Server Authentication", "2": "TLS Web Client Authentication", "3": "Code Signing",
		"4": "E-mail Protection", "8": "Time Stamping", "9": "OCSP Signing"}
	var words []string
	for _, id := range ids {
		word := id.String()
		if last, ok := strings.CutPrefix(word, "1.3.6.1.5.5.7.3."); ok && names[last] != "" {
			word = names[last]
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// upperHex writes bytes as 0A:1B.
func upperHex(p []byte) string { return strings.ToUpper(colonHex(p)) }
