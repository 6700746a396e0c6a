// Module xml: values and attributes of XML files. A file is changed by replacing
// the bytes of the element that was found; everything else stays as it is.
package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
)

func xmlModule() Module {
	return Module{
		Doc: "Read and change XML files. Elements are found by paths like ./a/b, .//b, a[@k='v'] and *.",
		Funcs: Funcs{
			"get_value":     {run: xmlGetValue, doc: "Return the text of an element; False if there is none."},
			"set_value":     {run: xmlSetValue, doc: "Set the text of an element."},
			"get_attribute": {run: xmlGetAttribute, doc: "Return the attributes of an element."},
			"set_attribute": {run: xmlSetAttribute, doc: "Set an attribute of an element."},
		},
	}
}

// xmlPlace is an element with the places of its parts in the file.
type xmlPlace struct {
	name              string
	attrs             []xml.Attr
	text              string
	hasText           bool
	children          []*xmlPlace
	start, open, ends int64 // of the start tag, its end, and the end of the first text
}

// readXML parses a file.
func readXML(path string) (*xmlPlace, []byte, error) {
	p, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, osError(err)
	}
	d := xml.NewDecoder(bytes.NewReader(p))
	var root *xmlPlace
	var stack []*xmlPlace
	for {
		at := d.InputOffset()
		tok, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, OtherErrorf("xml.etree.ElementTree.ParseError", "%s", err)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			n := &xmlPlace{name: xmlFullName(tok.Name), attrs: append([]xml.Attr{}, tok.Attr...), start: at, open: d.InputOffset(), ends: d.InputOffset()}
			if len(stack) > 0 {
				top := stack[len(stack)-1]
				top.children = append(top.children, n)
			} else if root == nil {
				root = n
			}
			stack = append(stack, n)
		case xml.EndElement:
			if len(stack) == 0 || stack[len(stack)-1].name != xmlFullName(tok.Name) {
				return nil, nil, OtherErrorf("xml.etree.ElementTree.ParseError", "mismatched tag")
			}
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if len(stack) > 0 && len(stack[len(stack)-1].children) == 0 {
				n := stack[len(stack)-1]
				n.text, n.hasText, n.ends = n.text+string(tok), true, d.InputOffset()
			}
		}
	}
	if root == nil {
		return nil, nil, OtherErrorf("xml.etree.ElementTree.ParseError", "no element found")
	}
	return root, p, nil
}

func xmlFullName(n xml.Name) string {
	if n.Space != "" {
		return n.Space + ":" + n.Local
	}
	return n.Local
}

func (n *xmlPlace) attr(name string) (string, bool) {
	for _, a := range n.attrs {
		if xmlFullName(a.Name) == name {
			return a.Value, true
		}
	}
	return "", false
}

// fits says whether an element is meant by a step like b[@k='v'].
func (n *xmlPlace) fits(step string) bool {
	name, cond, has := strings.Cut(strings.TrimSuffix(step, "]"), "[")
	if name != "*" && name != n.name {
		return false
	}
	if !has {
		return true
	}
	key, value, equal := strings.Cut(cond, "=")
	value = strings.Trim(value, `'"`)
	if k, ok := strings.CutPrefix(key, "@"); ok {
		v, there := n.attr(k)
		return there && (!equal || v == value)
	}
	for _, c := range n.children {
		if c.name == key && (!equal || c.text == value) {
			return true
		}
	}
	return false
}

// find finds the first element of a path.
func (n *xmlPlace) find(path string) *xmlPlace {
	if path == "" || path == "." {
		return n
	}
	path = strings.TrimPrefix(path, "./")
	if rest, ok := strings.CutPrefix(path, "/"); ok { // .//b: at any depth
		for _, c := range n.children {
			step, more, _ := strings.Cut(rest, "/")
			if c.fits(step) {
				if hit := c.find(more); hit != nil {
					return hit
				}
			}
			if hit := c.find(".//" + rest); hit != nil {
				return hit
			}
		}
		return nil
	}
	step, rest, more := strings.Cut(path, "/")
	if more && strings.HasPrefix(rest, "/") {
		rest = "." + "/" + rest
	}
	for _, c := range n.children {
		if c.fits(step) {
			if hit := c.find(rest); hit != nil {
				return hit
			}
		}
	}
	return nil
}

// findXML reads a file and finds an element; nil with the reason in the log.
func findXML(c *Call, file, element string) (*xmlPlace, []byte, error) {
	root, p, err := readXML(file)
	if err != nil {
		return nil, nil, err
	}
	n := root.find(element)
	if n == nil {
		c.Log.Error("Unable to find element matching " + element)
	}
	return n, p, nil
}

type xmlElementArgs struct{ File, Element string }

func xmlGetValue(_ context.Context, c *Call, a xmlElementArgs) (any, error) {
	n, _, err := findXML(c, a.File, a.Element)
	switch {
	case err != nil || n == nil:
		return false, err
	case !n.hasText:
		return nil, nil
	}
	return n.text, nil
}

func xmlGetAttribute(_ context.Context, c *Call, a xmlElementArgs) (any, error) {
	n, _, err := findXML(c, a.File, a.Element)
	if err != nil || n == nil {
		return false, err
	}
	out := &Map{}
	for _, at := range n.attrs {
		out.Set(xmlFullName(at.Name), at.Value)
	}
	return out, nil
}

func xmlEscaped(s string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return ""
	}
	return b.String()
}

// tag writes the start tag of an element.
func (n *xmlPlace) tag() string {
	s := "<" + n.name
	for _, a := range n.attrs {
		s += " " + xmlFullName(a.Name) + `="` + xmlEscaped(a.Value) + `"`
	}
	return s + ">"
}

type xmlSetValueArgs struct {
	File, Element string
	Value         any
}

// splice replaces a part of a file.
func splice(path string, p []byte, from, to int64, text string) (any, error) {
	out := append(append(append([]byte{}, p[:from]...), text...), p[to:]...)
	if err := replaceSystemFile(path, out, 0o644); err != nil {
		return nil, osError(err)
	}
	return true, nil
}

func xmlSetValue(_ context.Context, c *Call, a xmlSetValueArgs) (any, error) {
	n, p, err := findXML(c, a.File, a.Element)
	if err != nil || n == nil {
		return false, err
	}
	text := xmlEscaped(Str(a.Value))
	if bytes.HasSuffix(p[n.start:n.open], []byte("/>")) {
		return splice(a.File, p, n.start, n.open, n.tag()+text+"</"+n.name+">")
	}
	return splice(a.File, p, n.open, n.ends, text)
}

type xmlSetAttributeArgs struct {
	File, Element, Key string
	Value              any
}

func xmlSetAttribute(_ context.Context, c *Call, a xmlSetAttributeArgs) (any, error) {
	n, p, err := findXML(c, a.File, a.Element)
	if err != nil || n == nil {
		return false, err
	}
	done := false
	for i := range n.attrs {
		if xmlFullName(n.attrs[i].Name) == a.Key {
			n.attrs[i].Value, done = Str(a.Value), true
		}
	}
	if !done {
		n.attrs = append(n.attrs, xml.Attr{Name: xml.Name{Local: a.Key}, Value: Str(a.Value)})
	}
	tag := n.tag()
	if bytes.HasSuffix(p[n.start:n.open], []byte("/>")) {
		tag = strings.TrimSuffix(tag, ">") + " />"
	}
	return splice(a.File, p, n.start, n.open, tag)
}
