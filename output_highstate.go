// The report of a state run: for each minion one block a state and a summary.
package main

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// errNoStates is what this outputter answers for a mapping of other data.
var errNoStates = fmt.Errorf("%w (results of states)", errCannotShow)

func outputHighstate(data any, o OutputOptions) (string, error) { return highstate(data, o, 1) }

func highstate(data any, o OutputOptions, level int) (string, error) {
	data = unwrapStates(data)
	switch v := data.(type) {
	case nil:
		return "None", nil
	case string, bool, int64, *big.Int:
		return Str(v), nil
	}
	m, ok := data.(*Map)
	if !ok {
		return "", errNoStates
	}
	masters := 0
	for k := range m.All() {
		if name, ok := k.(string); ok && strings.HasSuffix(name, "_master") {
			masters++
		}
	}
	if m.Has("retcode") && masters == 1 {
		m = m.Clone()
		m.Delete("retcode")
	}
	if o.StateCompress {
		m = compressIDs(m)
	}
	var parts []string
	for host, result := range m.All() {
		text, _, err := formatHost(Str(host), result, o, level)
		if err != nil {
			return "", err
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 && o.Log != nil {
		o.Log.Error("Data passed to highstate outputter is not a valid highstate return: " + Repr(data))
	}
	return strings.Join(parts, "\n"), nil
}

// unwrapStates takes off what orchestration and the job cache put around the
// results of states.
func unwrapStates(data any) any {
	if m, ok := data.(*Map); ok && m.Has("return") {
		data = m.Value("return")
	}
	if m, ok := data.(*Map); ok && m.Has("data") {
		data = m.Value("data")
	}
	if m, ok := data.(*Map); ok && m.Len() == 1 {
		_, only := m.At(0)
		if inner, ok := only.(*Map); ok && inner.Has("jid") && inner.Has("fun") {
			if v, ok := inner.Map("return").Get("data"); ok {
				data = v
			}
		}
	}
	return data
}

// stateReport collects the lines and counts of one minion's report.
type stateReport struct {
	o        OutputOptions
	c        palette
	lines    []string
	host     string // colour of the minion's line
	counts   *Map   // result → states
	warnings int
	changed  int
	serial   []float64 // durations of states that ran one after the other
	parallel []float64
}

func formatHost(host string, data any, o OutputOptions, level int) (string, bool, error) {
	r := &stateReport{o: o, c: colours(o.Color), counts: NewMap()}
	r.host = r.c.green
	switch data := data.(type) {
	case bool, int64, *big.Int:
		r.changed = 1
		r.add(r.host, "    "+Str(data))
		r.host = r.c.cyan
	case string:
		r.changed = 1
		for _, line := range pyLines(data, false) {
			r.add(r.host, "    "+line)
		}
		r.host = r.c.cyan
	case *List:
		r.host = r.c.lightRed
		r.lines = append(r.lines, "    "+r.host+"Data failed to compile:"+r.c.end)
		for _, item := range data.Items {
			r.lines = append(r.lines, r.host+"----------\n    "+o.safe(Str(item))+r.c.end)
		}
	case *Map:
		if err := r.states(host, data, level); err != nil {
			return "", false, err
		}
	}
	first := r.host + o.safe(host) + ":" + r.c.end
	return strings.Join(append([]string{first}, r.lines...), "\n"), r.changed > 0, nil
}

func (r *stateReport) add(colour, text string) {
	r.lines = append(r.lines, colour+text+r.c.end)
}

func (r *stateReport) states(host string, data *Map, level int) error {
	type entry struct {
		tag string
		ret *Map
		num float64
	}
	var states []entry
	for tag, v := range data.All() {
		info, ok := v.(*Map)
		if !ok {
			continue
		}
		if tag != "changes" && info.Len() > 0 && !info.Has("__run_num__") {
			r.lines = append([]string{
				"The State execution failed to record the order in which all states were executed. The state return missing data is:",
				pprint(info, 1)}, r.lines...)
		}
		if info.Has("result") {
			states = append(states, entry{Str(tag), info, NewOptions(info).Float("__run_num__")})
		}
	}
	sort.SliceStable(states, func(i, j int) bool { return states[i].num < states[j].num })
	for _, s := range states {
		if err := r.state(s.tag, s.ret, level); err != nil {
			return err
		}
	}
	r.summary(host)
	return nil
}

// state adds the block of one state.
func (r *stateReport) state(tag string, ret *Map, level int) error {
	o, c := r.o, r.c
	result := ret.Value("result")
	count := 1
	if o.StateCompress && strings.Contains(tag, "_|-state_compressed_") {
		if parts := strings.Split(tag, "_|-"); len(parts) == 4 {
			count = trailingCount(parts[1])
		}
	}
	have, _ := r.counts.Value(result).(int64)
	if !Hashable(result) {
		return errNoStates
	}
	r.counts.Set(result, have+int64(count))
	if ret.Has("__parallel__") {
		r.parallel = append(r.parallel, stateDuration(ret))
	} else {
		r.serial = append(r.serial, stateDuration(ret))
	}
	changes, ok := ret.Get("changes")
	if !ok {
		return errNoStates
	}
	changed, changesText := false, ""
	switch ret.Value("name") {
	case "state.orch", "state.orchestrate", "state.sls":
		nested, err := highstate(changes, o, level+1)
		if err != nil {
			return err
		}
		pad := strings.Repeat(" ", 14*level)
		changesText = pad + strings.ReplaceAll("\n"+nested, "\n", "\n"+pad)
		changed = true
		r.changed++
	default:
		var err error
		if changed, changesText, err = r.changes(changes); err != nil {
			return err
		}
		if changed {
			n := 1
			if m, ok := changes.(*Map); ok && count > 1 {
				n = max(m.Map("compressed changes").Len(), 1)
			}
			r.changed += n
		}
	}
	if (o.StateDiff || !o.StateVerbose) && Truth(result) && !changed {
		return nil
	}
	colour := c.green
	if changed {
		colour = c.cyan
	}
	switch result {
	case false:
		colour, r.host = c.red, c.red
	case nil:
		colour, r.host = c.lightYellow, c.lightYellow
	}
	comps := strings.Split(tag, "_|-")
	if len(comps) < 3 {
		return errNoStates
	}
	if strings.HasSuffix(o.StateOutput, "_id") {
		comps[2] = comps[1]
	}
	switch {
	case strings.HasPrefix(o.StateOutput, "filter"):
		if containsText(o.StateTerse, Str(result)) {
			return r.terse(colour, comps, ret)
		}
		if containsText(o.StateExclude, Str(result)) {
			return nil
		}
	case strings.HasPrefix(o.StateOutput, "terse"),
		strings.HasPrefix(o.StateOutput, "mixed") && result != false,
		strings.HasPrefix(o.StateOutput, "changes") && Truth(result) && !changed:
		return r.terse(colour, comps, ret)
	}
	if len(comps) < 4 {
		return errNoStates
	}
	return r.full(colour, comps, ret, changesText)
}

func containsText(list []string, s string) bool {
	for _, item := range list {
		if item == s {
			return true
		}
	}
	return false
}

// full adds a block with a line for each part of the result.
func (r *stateReport) full(colour string, comps []string, ret *Map, changes string) error {
	rawComment, ok := ret.Get("comment")
	if !ok {
		return errNoStates
	}
	const indent = "\n              "
	comment := strings.ReplaceAll(pyStrip(Str(rawComment)), "\n", indent)
	if v, ok := ret.Get("data"); ok {
		switch v := v.(type) {
		case *List:
			for _, item := range v.Items {
				comment += " " + Str(item)
			}
		case *Map:
			for k, item := range v.All() {
				comment += "\n\t\t" + Str(k) + ": " + Str(item)
			}
		default:
			comment += " " + Str(v)
		}
	}
	r.add(colour, "----------")
	line := func(label, text string) {
		r.lines = append(r.lines, "    "+colour+label+text+r.c.end)
	}
	line("      ID: ", comps[1])
	line("Function: ", comps[0]+"."+comps[3])
	if comps[1] != comps[2] {
		line("    Name: ", comps[2])
	}
	line("  Result: ", Str(ret.Value("result")))
	line(" Comment: ", comment)
	if r.o.StateProfile && ret.Has("start_time") {
		line(" Started: ", Str(ret.Value("start_time")))
		duration := ""
		if v, ok := ret.Get("duration"); ok && v != "" {
			duration = Str(v) + " ms"
		}
		line("Duration: ", duration)
	}
	r.add(colour, "     Changes:   "+changes)
	if w, ok := ret.Get("warnings"); ok {
		r.warnings++
		l, ok := w.(*List)
		if !ok {
			return errNoStates
		}
		text := strings.TrimLeftFunc(textwrapFill(strings.Join(texts(l), "\n"), 80, strings.Repeat(" ", 14)), pySpace)
		r.lines = append(r.lines, "   "+r.c.lightRed+" Warnings: "+text+r.c.end)
	}
	return nil
}

// changes are the changes of a state as text, and whether there are any.
func (r *stateReport) changes(changes any) (bool, string, error) {
	if !Truth(changes) {
		return false, "", nil
	}
	m, ok := changes.(*Map)
	if !ok {
		return true, "Invalid Changes data: " + Str(changes), nil
	}
	if ret := m.Value("ret"); ret != nil && m.Value("out") == "highstate" {
		hosts, ok := ret.(*Map)
		if !ok {
			return false, "", errNoStates
		}
		changed := false
		var b strings.Builder
		for host, data := range hosts.All() {
			text, c, err := formatHost(Str(host), data, r.o, 1)
			if err != nil {
				return false, "", err
			}
			for _, line := range pyLines(text, false) {
				b.WriteString("\n              " + line)
			}
			changed = changed || c
		}
		return changed, b.String(), nil
	}
	o := r.o
	o.BaseIndent, o.Retcode = 14, 0
	text, err := outputNested(m, o)
	return true, "\n" + pyRstrip(text), err
}

// terse adds a state as one line.
func (r *stateReport) terse(colour string, comps []string, ret *Map) error {
	result := "Clean"
	if Truth(ret.Value("changes")) {
		result = "Changed"
	}
	switch ret.Value("result") {
	case false:
		result = "Failed"
	case nil:
		result = "Differs"
	}
	warnings := ""
	if l, ok := ret.Value("warnings").(*List); ok {
		warnings = r.c.lightRed + "Warnings:\n" + strings.Join(texts(l), "\n") + r.c.end
	}
	name, mod, fun := comps[2], comps[0], comps[len(comps)-1]
	profile := r.o.StateProfile && ret.Has("start_time")
	start, duration := Str(ret.Value("start_time")), Str(ret.Value("duration"))
	if profile && !ret.Has("duration") {
		return errNoStates
	}
	switch tabular := r.o.StateTabular.(type) {
	case string:
		text, err := positionalFormat(tabular, []any{colour, name, mod, fun, result, r.c.end, ret})
		if err != nil {
			return err
		}
		r.lines = append(r.lines, text)
		return nil
	case bool:
		if tabular {
			if warnings != "" {
				warnings += "\n"
			}
			text := warnings + colour
			if profile {
				text += fmt.Sprintf("%s [%s ms] ", start, justifyText(duration, 7, "right"))
			}
			text += justifyText(mod, 10, "right") + "." + justifyText(fun, 10, "left") + " " + justifyText(result, 7, "left") + "   Name: " + name + r.c.end
			r.lines = append(r.lines, text)
			return nil
		}
	}
	text := fmt.Sprintf("%s %s Name: %s - Function: %s.%s - Result: %s", warnings, colour, name, mod, fun, result)
	if profile {
		text += fmt.Sprintf(" - Started: %s - Duration: %s ms", start, duration)
	}
	r.lines = append(r.lines, text+r.c.end)
	return nil
}

// summary adds the counts at the end of a report.
func (r *stateReport) summary(host string) {
	c := r.c
	n := func(result any) int64 { v, _ := r.counts.Value(result).(int64); return v }
	total := int64(0)
	widest := 0
	for _, v := range r.counts.All() {
		total += v.(int64)
		widest = max(widest, len(strconv.FormatInt(v.(int64), 10)))
	}
	if r.warnings > 0 {
		widest = max(widest, len(strconv.Itoa(r.warnings)))
	}
	const label = len("Succeeded")
	width := label + widest + 2
	rule := strings.Repeat("-", width)
	count := func(label string, v any) string {
		return label + ": " + justifyText(Str(v), width-len(label)-2, "right")
	}
	r.add(c.cyan, "\nSummary for "+host+"\n"+rule)
	var stats []string
	unchanged := n(nil)
	if unchanged > 0 {
		stats = append(stats, c.lightYellow+fmt.Sprintf("unchanged=%d", unchanged)+c.end)
	}
	if r.changed > 0 {
		stats = append(stats, c.green+fmt.Sprintf("changed=%d", r.changed)+c.end)
	}
	tail := ""
	if len(stats) > 0 {
		tail = " (" + strings.Join(stats, ", ") + ")"
	}
	r.lines = append(r.lines, c.green+count("Succeeded", n(true)+unchanged)+c.end+tail)
	failed := n(false)
	failedColour := c.cyan
	if failed > 0 {
		failedColour = c.red
	}
	r.add(failedColour, count("Failed", failed))
	if r.o.StatePct && total > 0 {
		percent := func(part int64) float64 {
			return math.RoundToEven(float64(part)/float64(total)*100*100) / 100
		}
		r.add(c.green, count("Success %", percent(n(true)+unchanged)))
		r.add(failedColour, count("Failure %", percent(failed)))
	}
	if r.warnings > 0 {
		r.add(c.lightRed, count("Warnings", int64(r.warnings)))
	}
	r.add(c.cyan, rule+"\nTotal states run: "+justifyText(strconv.FormatInt(total, 10), width-7, "right"))
	if !r.o.StateProfile {
		return
	}
	sum, longest := 0.0, 0.0
	for _, d := range r.serial {
		sum += d
	}
	for _, d := range r.parallel {
		longest = max(longest, d)
	}
	sum += longest
	unit := "ms"
	if sum > 999 {
		sum, unit = sum/1000, "s"
	}
	r.add(c.cyan, "Total run time: "+justifyText(fmt.Sprintf("%.3f", sum), width-5, "right")+" "+unit)
}

// stateDuration is the duration of a state in milliseconds.
func stateDuration(ret *Map) float64 {
	switch d := ret.Value("duration").(type) {
	case int64:
		return float64(d)
	case float64:
		return d
	case string:
		number, _, _ := strings.Cut(d, " ms")
		f, _ := strconv.ParseFloat(strings.TrimSpace(number), 64)
		return f
	}
	return 0
}

// trailingCount is the n of "text (n)", else 1.
func trailingCount(s string) int {
	open := strings.LastIndexByte(s, '(')
	if open < 0 || !strings.HasSuffix(s, ")") {
		return 1
	}
	n, err := strconv.Atoi(s[open+1 : len(s)-1])
	if err != nil {
		return 1
	}
	return n
}

// compressIDs joins states of one id and result. Data that is no state run
// stays as it is.
func compressIDs(data *Map) *Map {
	out := NewMap()
	for host, v := range data.All() {
		states, ok := v.(*Map)
		if !ok {
			return data
		}
		key := func(tag any, info *Map) string {
			mod, _, _ := strings.Cut(Str(tag), "_|-")
			return strings.Join([]string{mod, Str(info.Value("__id__")), Str(info.Value("__sls__")), Str(info.Value("result"))}, "_")
		}
		count := map[string]int{}
		for tag, v := range states.All() {
			info, ok := v.(*Map)
			if !ok || !info.Has("__id__") || !info.Has("__sls__") || !info.Has("result") {
				return data
			}
			count[key(tag, info)]++
		}
		joined := NewMap()
		for tag, v := range states.All() {
			info := v.(*Map)
			n := count[key(tag, info)]
			comps := strings.Split(Str(tag), "_|-")
			if n == 1 || len(comps) < 4 {
				joined.Set(tag, info)
				continue
			}
			id := Str(info.Value("__id__"))
			comps[2] = strings.Join([]string{"state_compressed", Str(info.Value("__sls__")), id, Str(info.Value("result"))}, "_")
			comps[1] = fmt.Sprintf("%s (%d)", id, n)
			name := strings.Join(comps, "_|-")
			first, ok := joined.Value(name).(*Map)
			if !ok {
				joined.Set(name, info.Clone())
				continue
			}
			for _, k := range []string{"__run_num__", "duration", "start_time"} {
				if !first.Has(k) || !info.Has(k) { // a state that never began: nothing is joined
					return data
				}
			}
			joinState(first, info)
		}
		out.Set(host, joined)
	}
	return out
}

// joinState adds a state to the first one of its id: the lowest number, the
// earliest start, the sum of the durations, the changes by name.
func joinState(first, more *Map) {
	if c, err := Compare(more.Value("__run_num__"), first.Value("__run_num__")); err == nil && c < 0 {
		first.Set("__run_num__", more.Value("__run_num__"))
	}
	first.Set("duration", math.RoundToEven((stateDuration(first)+stateDuration(more))*1000)/1000)
	if c, err := Compare(more.Value("start_time"), first.Value("start_time")); err == nil && c < 0 {
		first.Set("start_time", more.Value("start_time"))
	}
	if !Truth(more.Value("changes")) {
		return
	}
	byName := NewMap()
	if have, ok := first.Value("changes").(*Map); ok && have.Len() > 0 {
		if m := have.Map("compressed changes"); m != nil {
			byName = m.Clone()
		} else {
			byName.Set(first.Value("name"), have)
		}
	}
	byName.Set(more.Value("name"), more.Value("changes"))
	first.Set("changes", NewMap("compressed changes", byName))
}

// positionalFormat fills {0} to {6}, {6[key]}, with !s and a spec of width and
// alignment: what a state_tabular format uses.
func positionalFormat(format string, args []any) (string, error) {
	field := regexp.MustCompile(`\{\{|\}\}|\{(\d*)(?:\[([^\]]*)\])?(?:![sr])?(?::([<>^]?)(\d*)(?:\.(\d+))?s?)?\}`)
	var failed error
	next := 0
	text := field.ReplaceAllStringFunc(format, func(m string) string {
		if m == "{{" || m == "}}" {
			return m[:1]
		}
		g := field.FindStringSubmatch(m)
		n := next
		if g[1] != "" {
			n, _ = strconv.Atoi(g[1])
		} else {
			next++
		}
		if n >= len(args) {
			failed = fmt.Errorf("state_tabular has no field %d", n)
			return ""
		}
		v := args[n]
		if g[2] != "" {
			ret, ok := v.(*Map)
			if !ok || !ret.Has(g[2]) {
				failed = fmt.Errorf("state_tabular: no %s in field %d", g[2], n)
				return ""
			}
			v = ret.Value(g[2])
		}
		s := Str(v)
		if most, err := strconv.Atoi(g[5]); err == nil && utf8.RuneCountInString(s) > most {
			s = string([]rune(s)[:most])
		}
		width, _ := strconv.Atoi(g[4])
		return justifyText(s, width, map[string]string{"": "left", "<": "left", ">": "right", "^": "middle"}[g[3]])
	})
	return text, failed
}
