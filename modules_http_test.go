// Tests of the module http against a server of its own.
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHTTPQuery(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"a": [1, null]}`)
		case "/xml":
			w.Header().Set("Content-Type", "text/xml")
			fmt.Fprint(w, `<r><a>1</a><b><c>2</c><c/></b></r>`)
		case "/echo":
			body, _ := io.ReadAll(r.Body)
			user, _, _ := r.BasicAuth()
			fmt.Fprint(w, r.Method, " ", r.URL.RawQuery, " ", r.Header.Get("Content-Type"), " ", r.Header.Get("X-Own"), " ", user, " ", string(body))
		default:
			http.Error(w, "nothing here", http.StatusNotFound)
		}
	}))
	defer server.Close()
	c := moduleTestCall(t)
	url := server.URL
	checkCalls(t, c, []moduleCall{
		{"http.query", []any{url + "/json"}, []any{"decode", true, "status", true}, "{'body': '{\"a\": [1, null]}', 'status': 200, 'dict': {'a': [1, None]}}"},
		{"http.query", []any{url + "/xml"}, []any{"decode", true}, "{'body': '<r><a>1</a><b><c>2</c><c/></b></r>', 'dict': [{'a': '1'}, {'c': ['2', {'c': None}]}]}"},
		{"http.query", []any{url + "/json"}, []any{"decode", true, "decode_type", "csv"},
			"{'body': '{\"a\": [1, null]}', 'error': \"Invalid decode_type specified. Valid decode types are: ('json', 'xml', 'yaml', 'plain')\"}"},
		{"http.query", []any{url + "/absent"}, nil, "{'status': 404, 'error': 'HTTP 404: Not Found', 'body': 'nothing here\\n'}"},
		{"http.query", []any{url + "/echo"}, []any{"method", "POST", "data", NewMap("k", "v w"), "params", NewMap("p", int64(1)),
			"header_list", NewList("X-Own: yes"), "username", "me", "password", "x"},
			"{'body': 'POST p=1 application/x-www-form-urlencoded yes me k=v+w'}"},
		{"http.query", []any{url}, []any{"test", true}, "{}"},
		{"http.wait_for_successful_query", []any{url + "/absent"}, []any{"wait_for", int64(0)}, "{'status': 404, 'error': 'HTTP 404: Not Found', 'body': 'nothing here\\n'}"},
	})
	server.Close()
	checkCalls(t, c, []moduleCall{{"http.query", []any{url}, []any{"status", true}, "{'error': '[Errno 111] Connection refused', 'status': 0}"}})
}
