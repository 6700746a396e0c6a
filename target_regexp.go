// Regular expressions of targets: Python's syntax, anchored at the start.
package main

// compileAnchored compiles what re.match would take. The function answers
// whether a text begins with a match; a match that takes too long is none.
func compileAnchored(pattern string) (func(string) bool, error) {
	re, err := CompilePython(pattern, 0)
	if err != nil {
		return nil, err
	}
	return func(s string) bool {
		m, err := re.Match(s)
		return err == nil && m != nil
	}, nil
}
