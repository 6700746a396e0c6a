// The module http: requests, as salt.utils.http.query makes them.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func httpModule() Module {
	return Module{
		Doc: "Requests over HTTP.",
		Funcs: Funcs{
			"query":                     {run: httpModuleQuery, doc: "Make a request and return a mapping with the body, and what else is asked for.\n\nmethod, params, data, data_file, header_dict, header_list, header_file: the request\nusername, password, cert, verify_ssl, ca_bundle: who asks, and whom\nstatus, headers, text: return these too\ndecode, decode_type: return the decoded body as dict (json, yaml, xml)\ntext_out, decode_out: files for the body\n\nCLI Example:\n\n    salt '*' http.query http://somelink.com/ method=POST data='<xml>somecontent</xml>'"},
			"wait_for_successful_query": {run: httpModuleWait, doc: "Repeat a request until it succeeds, for wait_for seconds at most."},
			"update_ca_bundle":          {run: httpModuleBundle, doc: "Replace the file of trusted authorities by that of source, and append merge_files."},
		},
	}
}

type httpQueryArgs struct {
	URL    string `arg:"url"`
	Kwargs *Map   `arg:"**kwargs"`
}

func httpModuleQuery(ctx context.Context, c *Call, a httpQueryArgs) (any, error) {
	ret, err := httpQuery(ctx, c, a.URL, a.Kwargs)
	if err != nil {
		return nil, ExecErrorf("%s", err)
	}
	return ret, nil
}

type httpWaitArgs struct {
	URL     string  `arg:"url"`
	WaitFor float64 `arg:"wait_for" def:"300"`
	Kwargs  *Map    `arg:"**kwargs"`
}

func httpModuleWait(ctx context.Context, c *Call, a httpWaitArgs) (any, error) {
	end := time.Now().Add(time.Duration(a.WaitFor * float64(time.Second)))
	pause := seconds(a.Kwargs.Value("request_interval"))
	if pause <= 0 {
		pause = 100 * time.Millisecond // a server that is down is not hammered
	}
	for {
		ret, err := httpModuleQuery(ctx, c, httpQueryArgs{a.URL, a.Kwargs})
		if m, ok := ret.(*Map); err == nil && ok && !m.Has("error") {
			return ret, nil
		}
		if !time.Now().Before(end) || ctx.Err() != nil {
			return ret, err
		}
		sleepContext(ctx, pause)
	}
}

type httpBundleArgs struct {
	Target     any `def:"None"`
	Source     any `def:"None"`
	MergeFiles any `arg:"merge_files" def:"None"`
}

func httpModuleBundle(ctx context.Context, c *Call, a httpBundleArgs) (any, error) {
	target, source := Str(orEmpty(a.Target)), Str(orEmpty(a.Source))
	if target == "" {
		if target = caBundle(c.Opts); target == "" {
			return nil, ExecErrorf("Unable to detect location to write CA bundle to")
		}
	}
	if source == "" {
		if source = c.Opts.Str("ca_bundle_url"); source == "" {
			return nil, InvocationErrorf("source or the option ca_bundle_url must say where the CA bundle comes from")
		}
	}
	ret, err := httpQuery(ctx, c, source, NewMap("text", true))
	if err != nil {
		return nil, ExecErrorf("%s", err)
	}
	if ret.Has("error") {
		return nil, ExecErrorf("Unable to download %s: %s", source, ret.Str("error"))
	}
	text := ret.Str("text")
	for _, name := range excludeNames(a.MergeFiles) {
		data, err := os.ReadFile(name)
		if err != nil {
			c.Log.Error(fmt.Sprintf("Reading from %s caused the following error: %s", name, osErrorText(err)))
			continue
		}
		text += "\n" + string(data)
	}
	if err := replaceAtomically(realPath(target), []byte(text)); err != nil {
		return nil, pyOSError(err)
	}
	return nil, nil
}

// caBundle is the file of trusted authorities that the configuration or the
// state tree has; otherwise that of the system.
func caBundle(o *Options) string {
	places := []string{o.Str("ca_bundle")}
	if roots, ok := o.Value("file_roots").(*Map); ok {
		for _, root := range wordsOf(roots.Value("base")) {
			places = append(places, filepath.Join(root, "cacert.pem"), filepath.Join(root, "ca-bundle.crt"))
		}
	}
	places = append(places, "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/tls/certs/ca-bundle.trust.crt",
		"/etc/ssl/certs/ca-bundle.crt", "/var/lib/ca-certificates/ca-bundle.pem", "/etc/ssl/cert.pem")
	for _, p := range places {
		if p != "" && pathExists(p) {
			return p
		}
	}
	return ""
}

func wordsOf(v any) []string {
	if l, ok := v.(*List); ok {
		return texts(l)
	}
	if v == nil {
		return nil
	}
	return []string{Str(v)}
}

// httpBody is the body of a request from its arguments, and its type.
func httpBody(ctx context.Context, c *Call, kw *Map) (body []byte, contentType string, err error) {
	data := kw.Value("data")
	if file := kw.Value("data_file"); file != nil {
		text, err := httpFile(ctx, c, Str(file), kw, "data_render")
		if err != nil {
			return nil, "", err
		}
		data = text
	}
	if Truth(kw.Value("formdata")) {
		field := kw.Str("formdata_fieldname")
		if field == "" {
			return nil, "", errNoFormField
		}
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		part, err := w.CreateFormFile(field, kw.Str("formdata_filename"))
		if err == nil {
			_, err = io.WriteString(part, Str(orEmpty(data)))
		}
		if err == nil {
			err = w.Close()
		}
		return b.Bytes(), w.FormDataContentType(), err
	}
	if m, ok := data.(*Map); ok {
		data = encodeQuery(m)
	}
	if data == nil {
		return nil, "", nil
	}
	return []byte(Str(data)), "", nil
}

var errNoFormField = errors.New("formdata_fieldname is required when formdata=True")

// encodeQuery is urlencode: the pairs in their order.
func encodeQuery(m *Map) string {
	var parts []string
	for k, v := range m.All() {
		parts = append(parts, url.QueryEscape(Str(k))+"="+url.QueryEscape(Str(v)))
	}
	return strings.Join(parts, "&")
}

// httpFile reads a file of the request, from the box or the tree, and renders it
// if asked to.
func httpFile(ctx context.Context, c *Call, name string, kw *Map, render string) (string, error) {
	path, err := cacheArchive(ctx, c, name, "base", nil)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", errors.New(osErrorText(err))
	}
	if !Truth(kw.Value(render)) {
		return string(data), nil
	}
	vars, _ := kw.Value("template_dict").(*Map)
	return renderModuleText(ctx, c, "jinja", string(data), nil, vars)
}

// httpHeaders puts the headers of the arguments into a request.
func httpHeaders(ctx context.Context, c *Call, kw *Map, h http.Header) error {
	dict, _ := kw.Value("header_dict").(*Map)
	lines := wordsOf(kw.Value("header_list"))
	if file := kw.Value("header_file"); file != nil {
		text, err := httpFile(ctx, c, Str(file), kw, "header_render")
		if err != nil {
			return err
		}
		lines = pyLines(text, false)
		if Truth(kw.Value("header_render")) {
			if m, err := ParseYAML([]byte(text)); err == nil {
				if m, ok := m.(*Map); ok {
					dict, lines = m, nil
				}
			}
		}
	}
	if dict != nil {
		for k, v := range dict.All() {
			h.Set(Str(k), Str(v))
		}
	}
	for _, line := range lines {
		if name, value, ok := strings.Cut(line, ":"); ok {
			h.Set(pyStrip(name), pyStrip(value))
		}
	}
	agent := "Salt/" + saltVersion + " http.query()"
	if v := kw.Value("agent"); v != nil {
		agent = Str(v)
	}
	h.Set("User-Agent", agent)
	return nil
}

// httpClient is the client for one request: its proxy, its certificates.
func httpClient(c *Call, host string, kw *Map) (*http.Client, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression, t.DisableKeepAlives = true, true
	connect := seconds(c.Opts.Value("http_connect_timeout"))
	if connect <= 0 {
		connect = 20 * time.Second
	}
	t.DialContext = (&net.Dialer{Timeout: connect}).DialContext
	if proxy, port := c.Opts.Str("proxy_host"), c.Opts.Value("proxy_port"); proxy != "" && Truth(port) && !slices.Contains(wordsOf(c.Opts.Value("no_proxy")), host) {
		u := &url.URL{Scheme: "http", Host: net.JoinHostPort(proxy, Str(port))}
		if user := c.Opts.Str("proxy_username"); user != "" {
			u.User = url.UserPassword(user, c.Opts.Str("proxy_password"))
		}
		t.Proxy = http.ProxyURL(u)
	}
	t.TLSClientConfig = &tls.Config{}
	option := func(name string, def any) any {
		if v := kw.Value(name); v != nil {
			return v
		}
		if v := c.Opts.Value(name); v != nil {
			return v
		}
		return def
	}
	if !Truth(option("verify_ssl", true)) {
		t.TLSClientConfig.InsecureSkipVerify = true
	} else if bundle := Str(orEmpty(option("ca_bundle", nil))); bundle != "" {
		data, err := os.ReadFile(bundle)
		if err != nil {
			return nil, errors.New(osErrorText(err))
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("no certificate in %s", bundle)
		}
		t.TLSClientConfig.RootCAs = pool
	}
	if files := wordsOf(option("cert", nil)); len(files) > 0 {
		pair, err := tls.LoadX509KeyPair(files[0], files[len(files)-1])
		if err != nil {
			return nil, fmt.Errorf("The client-side certificate path that was passed is not valid: %w", err)
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	limit := seconds(kw.Value("timeout"))
	if limit <= 0 {
		limit = seconds(c.Opts.Value("http_request_timeout"))
	}
	return &http.Client{Transport: t, Timeout: limit}, nil
}

// httpQuery makes one request. What the server or the network says against it
// is in the answer, under error; an error is a request that makes no sense.
func httpQuery(ctx context.Context, c *Call, address string, kw *Map) (*Map, error) {
	if kw == nil {
		kw = NewMap()
	}
	ret := NewMap()
	if params, ok := kw.Value("params").(*Map); ok && params.Len() > 0 {
		mark := "?"
		if strings.Contains(address, "?") {
			mark = "&"
		}
		address += mark + encodeQuery(params)
	}
	if Truth(kw.Value("test")) {
		if kw.Value("test_url") == nil {
			return ret, nil
		}
		address = kw.Str("test_url")
		ret.Set("test", true)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("Unsupported url scheme: %s", address)
	}
	body, contentType, err := httpBody(ctx, c, kw)
	if errors.Is(err, errNoFormField) {
		ret.Set("error", err.Error())
		return ret, nil
	}
	if err != nil {
		return nil, err
	}
	method := kw.Str("method")
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if err := httpHeaders(ctx, c, kw, req.Header); err != nil {
		return nil, err
	}
	switch {
	case contentType != "":
		req.Header.Set("Content-Type", contentType)
	case method == http.MethodPost && req.Header.Get("Content-Type") == "":
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if auth := wordsOf(kw.Value("auth")); len(auth) == 2 {
		req.SetBasicAuth(auth[0], auth[1])
	} else if user := kw.Str("username"); user != "" {
		req.SetBasicAuth(user, Str(orEmpty(kw.Value("password"))))
	}
	client, err := httpClient(c, u.Hostname(), kw)
	if err != nil {
		return nil, err
	}
	c.Log.Debug(fmt.Sprintf("Requesting URL %s using %s method", u.Redacted(), method))
	res, err := client.Do(req)
	if err != nil {
		return httpFailed(ret, kw, err), nil
	}
	defer res.Body.Close()
	raw, err := readHTTPBody(res)
	if err != nil {
		return httpFailed(ret, kw, err), nil
	}
	text, _ := decodeText(raw, "utf-8")
	if res.StatusCode >= 400 || res.StatusCode < 200 {
		ret.Set("status", int64(res.StatusCode))
		reason := strings.TrimSpace(strings.TrimPrefix(res.Status, fmt.Sprint(res.StatusCode)))
		ret.Set("error", fmt.Sprintf("HTTP %d: %s", res.StatusCode, reason))
		ret.Set("body", text)
		return ret, nil
	}
	ret.Set("body", text)
	if out := kw.Str("text_out"); out != "" {
		if err := os.WriteFile(out, raw, 0o644); err != nil {
			return nil, errors.New(osErrorText(err))
		}
	}
	if Truth(kw.Value("status")) {
		ret.Set("status", int64(res.StatusCode))
	}
	if Truth(kw.Value("headers")) {
		headers := NewMap()
		names := make([]string, 0, len(res.Header))
		for k := range res.Header {
			names = append(names, k)
		}
		slices.Sort(names)
		for _, k := range names {
			headers.Set(k, strings.Join(res.Header[k], ","))
		}
		ret.Set("headers", headers)
	}
	withText := Truth(kw.Value("text"))
	if Truth(kw.Value("decode")) {
		plain, err := decodeHTTP(ret, kw, res.Header.Get("Content-Type"), raw)
		if err != nil || ret.Has("error") {
			return ret, err
		}
		withText = withText || plain
		if out := kw.Str("decode_out"); out != "" {
			if err := os.WriteFile(out, raw, 0o644); err != nil {
				return nil, errors.New(osErrorText(err))
			}
		}
	}
	if withText {
		ret.Set("text", text)
	}
	return ret, nil
}

// httpFailed is the answer of a request that got none.
func httpFailed(ret, kw *Map, err error) *Map {
	var errno syscall.Errno
	var ne net.Error
	switch {
	case errors.As(err, &ne) && ne.Timeout():
		ret.Set("status", int64(599))
		ret.Set("error", "HTTP 599: Timeout")
		return ret
	case errors.As(err, new(*net.DNSError)):
		ret.Set("error", "[Errno -2] Name or service not known")
	case errors.As(err, &errno):
		ret.Set("error", fmt.Sprintf("[Errno %d] %s", int(errno), strerror(errno)))
	default:
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		ret.Set("error", err.Error())
	}
	if Truth(kw.Value("status")) {
		ret.Set("status", int64(0))
	}
	return ret
}

// readHTTPBody reads and unpacks an answer, up to httpBodyLimit.
func readHTTPBody(res *http.Response) ([]byte, error) {
	var r io.Reader = res.Body
	if strings.EqualFold(res.Header.Get("Content-Encoding"), "gzip") {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = z
	}
	raw, err := io.ReadAll(io.LimitReader(r, httpBodyLimit+1))
	if err == nil && len(raw) > httpBodyLimit {
		err = fmt.Errorf("the answer is longer than %d bytes", httpBodyLimit)
	}
	return raw, err
}

// decodeHTTP puts the decoded body into the answer; plain says that it is text.
func decodeHTTP(ret, kw *Map, contentType string, raw []byte) (plain bool, err error) {
	kind := kw.Str("decode_type")
	if kind == "" || kind == "auto" {
		kind = "plain"
		if contentType == "" {
			kind = "json"
		}
		for _, k := range []string{"xml", "json", "yaml"} {
			if strings.Contains(contentType, k) {
				kind = k
				break
			}
		}
	}
	var v any
	switch kind {
	case "json":
		v, err = DecodeJSON(raw)
	case "yaml":
		v, err = ParseYAML(raw)
	case "xml":
		v, err = xmlChildren(raw)
	case "plain":
		return true, nil
	default:
		ret.Set("error", "Invalid decode_type specified. Valid decode types are: ('json', 'xml', 'yaml', 'plain')")
		return false, nil
	}
	if err == nil {
		ret.Set("dict", v)
	}
	return false, err
}

// xmlNode is an element of a document that is read.
type xmlNode struct {
	XMLName  xml.Name
	Text     string    `xml:",chardata"`
	Children []xmlNode `xml:",any"`
}

// xmlChildren are the elements below the root, as salt.utils.xmlutil has them.
func xmlChildren(raw []byte) (*List, error) {
	var root xmlNode
	if err := xml.Unmarshal(raw, &root); err != nil {
		return nil, err
	}
	out := &List{}
	for _, n := range root.Children {
		out.Append(n.value())
	}
	return out, nil
}

func (n xmlNode) value() *Map {
	if len(n.Children) == 0 {
		return NewMap(n.XMLName.Local, n.text())
	}
	out := NewMap()
	for _, child := range n.Children {
		key := child.XMLName.Local
		old, had := out.Get(key)
		if !had {
			if len(child.Children) > 0 {
				out.Set(key, child.value())
			} else {
				out.Set(key, child.text())
			}
			continue
		}
		l, ok := old.(*List)
		if !ok {
			l = NewList(old)
			out.Set(key, l)
		}
		l.Append(child.value())
	}
	return out
}

func (n xmlNode) text() any {
	if n.Text == "" {
		return nil
	}
	return n.Text
}
