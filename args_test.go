// Words of a command line become the values that Salt makes of them; testdata
// has what it made.
package main

import (
	"errors"
	"strings"
	"testing"
)

// TestWordsAsRecorded compares the values of words with recordings of Salt.
func TestWordsAsRecorded(t *testing.T) {
	for _, c := range []struct{ word, want string }{
		{"+1", "[1]"},
		{"1e3", "['1e3']"},
		{"1.0", "[1.0]"},
		{"5.", "[5.0]"},
		{"0123", "[123]"},
		{"0x1F", "[31]"},
		{"0o17", "['0o17']"},
		{"1_0.5", "[10.5]"},
		{"12:30", "[750]"},
		{"2020-01-02", "['2020-01-02']"},
		{"2020-01-02 03:04:05", "['2020-01-02 03:04:05']"},
		{"2020-01-02T03:04:05Z", "['2020-01-02T03:04:05Z']"},
		{"yes", "[True]"},
		{"no", "[False]"},
		{"on", "[True]"},
		{"y", "['y']"},
		{"null", "[None]"},
		{"None", "[None]"},
		{"~", "[None]"},
		{"Null", "[None]"},
		{"NULL", "[None]"},
		{"none", "['none']"},
		{"\"\"", "['']"},
		{"''", "['']"},
		{"", "['']"},
		{"  x", "['x']"},
		{"x  ", "['x']"},
		{"\"quoted\"", "['quoted']"},
		{"'quoted'", "['quoted']"},
		{"'1'", "['1']"},
		{"[1,2,3]", "[[1, 2, 3]]"},
		{"[a, b, \"c d\"]", "[['a', 'b', 'c d']]"},
		{"[1, [2, {a: b}]]", "[[1, [2, {'a': 'b'}]]]"},
		{"{a: 1, b: [x]}", "[{'a': 1, 'b': ['x']}]"},
		{"{a: 1", "['{a: 1']"},
		{"[]", "[[]]"},
		{"a:b", "['a:b']"},
		{"#comment", "['#comment']"},
		{"x #y", "['x #y']"},
		{"x#y", "['x#y']"},
		{"1 # c", "[1]"},
		{"\"x # y\"", "['\"x # y\"']"},
		{"@foo", "['@foo']"},
		{"@", "['@']"},
		{"%x", "['%x']"},
		{"*x", "['*x']"},
		{"&a", "[None]"},
		{"!!str 1", "['1']"},
		{"!!python/object:os.system", "['!!python/object:os.system']"},
		{"> folded", "['> folded']"},
		{"{% x %}", "['{% x %}']"},
		{"a=1", "[{'__kwarg__': True, 'a': 1}]"},
		{"a='1'", "[{'__kwarg__': True, 'a': '1'}]"},
		{"a=", "[{'__kwarg__': True, 'a': ''}]"},
		{"a==b", "['a==b']"},
		{"a=b=c", "[{'__kwarg__': True, 'a': 'b=c'}]"},
		{"a b=c", "['a b=c']"},
		{"a-b=c", "[{'__kwarg__': True, 'a-b': 'c'}]"},
		{"a.b=c", "[{'__kwarg__': True, 'a.b': 'c'}]"},
		{"a=[1,2]", "[{'__kwarg__': True, 'a': [1, 2]}]"},
		{"a={\"x\": 1}", "[{'__kwarg__': True, 'a': {'x': 1}}]"},
		{"a=None", "[{'__kwarg__': True, 'a': None}]"},
		{"a=null", "[{'__kwarg__': True, 'a': None}]"},
		{"a=true", "[{'__kwarg__': True, 'a': True}]"},
		{"http://x/?a=b", "['http://x/?a=b']"},
		{"a=#x", "[{'__kwarg__': True, 'a': '#x'}]"},
		{"a=x #y", "[{'__kwarg__': True, 'a': 'x #y'}]"},
		{"\\n", "['\\\\n']"},
		{"inf", "['inf']"},
		{"nan", "['nan']"},
		{".nan", "[nan]"},
		{"1,2", "['1,2']"},
		{"1 2", "['1 2']"},
		{"? a", "['? a']"},
		{":", "[':']"},
		{"a:", "['a:']"},
		{":a", "[':a']"},
		{"ü", "['ü']"},
		{"0.10", "[0.1]"},
		{"08", "['08']"},
		{"09", "['09']"},
		{"0008", "['0008']"},
		{"1e400", "['1e400']"},
		{"1e+5", "['1e+5']"},
		{"1.5e-3", "[0.0015]"},
		{"1__2", "['1__2']"},
		{"0x", "['0x']"},
		{"key=yes", "[{'__kwarg__': True, 'key': True}]"},
		{"key=0123", "[{'__kwarg__': True, 'key': 123}]"},
		{"key=2020-01-02", "[{'__kwarg__': True, 'key': '2020-01-02'}]"},
		{"key=12:30", "[{'__kwarg__': True, 'key': 750}]"},
		{"__kwarg__=True", "[{'__kwarg__': True}]"},
		{"{\"__kwarg__\": true, \"a\": 1}", "[{'__kwarg__': True, 'a': 1}]"},
		{"<<", "['<<']"},
		{"'", "[\"'\"]"},
		{"{a: None}", "[{'a': 'None'}]"},
		{"\"a: b\"", "['a: b']"},
		{"a=b: c", "[{'__kwarg__': True, 'a': 'b: c'}]"},
		{"key=\"a=b\"", "[{'__kwarg__': True, 'key': 'a=b'}]"},
		{"\\x41", "['\\\\x41']"},
		{"\"\\x41\"", "['A']"},
		{"'it''s'", "[\"it's\"]"},
		{"\"tab\\there\"", "['tab\\there']"},
		{"|\n  text\n", "['|\\n  text\\n']"},
		{"a\nb", "['a\\nb']"},
		{"tab\there", "['tab\\there']"},
		{"a=\n  b: c", "['a=\\n  b: c']"},
		{"x\n", "['x\\n']"},
	} {
		if got := Repr(parseWords([]string{c.word}, nil)); got != c.want {
			t.Errorf("%q: %s, want %s", c.word, got, c.want)
		}
	}
}

func TestWordsThatStayText(t *testing.T) {
	for _, c := range []struct{ word, want string }{
		{" ", "[' ']"},
		{"---", "['---']"},
		{"...", "['...']"},
		{"1_000", "['1_000']"},
		{"a: b", "['a: b']"},
		{"!", "['!']"},
		{"|", "['|']"},
		{"9223372036854775808", "[9223372036854775808]"},
		{"20240102030405678901", "['20240102030405678901']"},
		{"123456789012345678901234", "['123456789012345678901234']"},
		{"-9223372036854775809", "['-9223372036854775809']"},
		{"1a=b", "['1a=b']"},
		{"/path=1", "['/path=1']"},
		{"=b", "['=b']"},
		{"ü=1", "[{'__kwarg__': True, 'ü': 1}]"},
		{"a=b\n", "[{'__kwarg__': True, 'a': 'b'}]"},
	} {
		if got := Repr(parseWords([]string{c.word}, nil)); got != c.want {
			t.Errorf("%q: %s, want %s", c.word, got, c.want)
		}
	}
}

func TestKeywordsStandLastInOneMapping(t *testing.T) {
	got := parseInput([]any{"b=2", int64(1), NewMap("__kwarg__", true, "z", "1"), "x", NewMap("p", "q"), "raw=3"}, noParseNames("raw, other"))
	if want := "[1, 'x', {'p': 'q'}, {'__kwarg__': True, 'b': 2, 'z': '1', 'raw': '3'}]"; Repr(got) != want {
		t.Errorf("%s", Repr(got))
	}
}

func TestGroupsOfSeveralFunctions(t *testing.T) {
	for _, c := range []struct {
		fun, words, sep, want string
		err                   error
	}{
		{"f,g", "a b , c", ",", "a b|c", nil},
		{"f,g", "a ,", ",", "a|", nil},
		{"f,g", ", hi", ",", "|hi", nil},
		{"f,g", "a ,hi", ",", "a|hi", nil},
		{"f,g", "a,b", ",", "a|b", nil},
		{"f,g,h", ",,", ",", "||", nil},
		{"f,g", "a,b -- c", "--", "a,b|c", nil},
		{"f,g", "a", ",", "", errTooFewGroups},
		{"f,g", "a,b,c", ",", "", errTooManyGroups},
		{"f,g", "", ",", "", errTooFewGroups},
	} {
		_, groups, err := splitFunctions(c.fun, strings.Fields(c.words), c.sep)
		var got []string
		for _, g := range groups {
			got = append(got, strings.Join(g, " "))
		}
		if !errors.Is(err, c.err) || strings.Join(got, "|") != c.want {
			t.Errorf("%s %s: %q, %v", c.fun, c.words, got, err)
		}
	}
}

func FuzzConvertWord(f *testing.F) {
	for _, s := range []string{"1", "{a: b}", "[", "a=1", "*x", "!!int x", "12:30", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, word string) {
		v := convertWord(word)
		if _, ok := v.(string); !ok && strings.ContainsAny(word, "\t\r\n") {
			t.Errorf("%q became %s", word, Repr(v))
		}
	})
}
