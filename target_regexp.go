// Regular expressions of targets: Python's syntax, anchored at the start.
package main

import "regexp"

// compileAnchored compiles what re.match would take. The function answers
// whether a text begins with a match.
func compileAnchored(pattern string) (func(string) bool, error) {
	re, err := regexp.Compile("^(?:" + pattern + ")")
	if err != nil {
		return nil, err
	}
	return re.MatchString, nil
}
