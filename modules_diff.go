// Differences of texts as Python's difflib writes them: unified diffs whose
// lines and hunks are those that Salt shows.
package main

import (
	"fmt"
	"sort"
	"strings"
)

// diffMatch is a run of equal lines.
type diffMatch struct{ a, b, size int }

// diffOp is one step: equal, replace, delete or insert of a[i1:i2], b[j1:j2].
type diffOp struct {
	tag            byte // '=', '~', '-', '+'
	i1, i2, j1, j2 int
}

// unifiedDiff is difflib.unified_diff joined, with three lines of context; ""
// if there is no difference. Lines have their ends.
func unifiedDiff(a, b []string, from, to string) string {
	var out strings.Builder
	for _, group := range groupedOps(diffOps(a, b), 3) {
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", from, to)
		}
		first, last := group[0], group[len(group)-1]
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", diffRange(first.i1, last.i2), diffRange(first.j1, last.j2))
		for _, op := range group {
			if op.tag == '=' {
				for _, line := range a[op.i1:op.i2] {
					out.WriteString(" " + line)
				}
				continue
			}
			for _, line := range a[op.i1:op.i2] {
				out.WriteString("-" + line)
			}
			for _, line := range b[op.j1:op.j2] {
				out.WriteString("+" + line)
			}
		}
	}
	return out.String()
}

func diffRange(start, stop int) string {
	n := stop - start
	switch n {
	case 1:
		return fmt.Sprint(start + 1)
	case 0:
		return fmt.Sprintf("%d,0", start)
	}
	return fmt.Sprintf("%d,%d", start+1, n)
}

// diffOps are the steps from a to b.
func diffOps(a, b []string) []diffOp {
	var ops []diffOp
	i, j := 0, 0
	for _, m := range matchingBlocks(a, b) {
		tag := byte(0)
		switch {
		case i < m.a && j < m.b:
			tag = '~'
		case i < m.a:
			tag = '-'
		case j < m.b:
			tag = '+'
		}
		if tag != 0 {
			ops = append(ops, diffOp{tag, i, m.a, j, m.b})
		}
		i, j = m.a+m.size, m.b+m.size
		if m.size > 0 {
			ops = append(ops, diffOp{'=', m.a, i, m.b, j})
		}
	}
	return ops
}

// matchingBlocks finds the longest runs of equal lines, left and right of each
// again, and joins neighbours. The last one is empty and stands at the ends.
func matchingBlocks(a, b []string) []diffMatch {
	index := map[string][]int{}
	for j, line := range b {
		index[line] = append(index[line], j)
	}
	if len(b) >= 200 { // lines that are everywhere are no anchors
		limit := len(b)/100 + 1
		for line, at := range index {
			if len(at) > limit {
				delete(index, line)
			}
		}
	}
	type span struct{ alo, ahi, blo, bhi int }
	var found []diffMatch
	queue := []span{{0, len(a), 0, len(b)}}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		m := longestMatch(a, b, index, s.alo, s.ahi, s.blo, s.bhi)
		if m.size == 0 {
			continue
		}
		found = append(found, m)
		if s.alo < m.a && s.blo < m.b {
			queue = append(queue, span{s.alo, m.a, s.blo, m.b})
		}
		if m.a+m.size < s.ahi && m.b+m.size < s.bhi {
			queue = append(queue, span{m.a + m.size, s.ahi, m.b + m.size, s.bhi})
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].a < found[j].a })
	var out []diffMatch
	for _, m := range found {
		if n := len(out); n > 0 && out[n-1].a+out[n-1].size == m.a && out[n-1].b+out[n-1].size == m.b {
			out[n-1].size += m.size
			continue
		}
		out = append(out, m)
	}
	return append(out, diffMatch{len(a), len(b), 0})
}

func longestMatch(a, b []string, index map[string][]int, alo, ahi, blo, bhi int) diffMatch {
	best := diffMatch{alo, blo, 0}
	lengths := map[int]int{}
	for i := alo; i < ahi; i++ {
		next := map[int]int{}
		for _, j := range index[a[i]] {
			if j < blo {
				continue
			}
			if j >= bhi {
				break
			}
			k := lengths[j-1] + 1
			next[j] = k
			if k > best.size {
				best = diffMatch{i - k + 1, j - k + 1, k}
			}
		}
		lengths = next
	}
	// What was no anchor may still lengthen the run.
	for best.a > alo && best.b > blo && a[best.a-1] == b[best.b-1] {
		best = diffMatch{best.a - 1, best.b - 1, best.size + 1}
	}
	for best.a+best.size < ahi && best.b+best.size < bhi && a[best.a+best.size] == b[best.b+best.size] {
		best.size++
	}
	return best
}

// groupedOps cuts the steps into hunks with n lines of context.
func groupedOps(ops []diffOp, n int) [][]diffOp {
	if len(ops) == 0 {
		return nil
	}
	if op := &ops[0]; op.tag == '=' {
		op.i1, op.j1 = max(op.i1, op.i2-n), max(op.j1, op.j2-n)
	}
	if op := &ops[len(ops)-1]; op.tag == '=' {
		op.i2, op.j2 = min(op.i2, op.i1+n), min(op.j2, op.j1+n)
	}
	var groups [][]diffOp
	var group []diffOp
	for _, op := range ops {
		if op.tag == '=' && op.i2-op.i1 > 2*n {
			group = append(group, diffOp{'=', op.i1, min(op.i2, op.i1+n), op.j1, min(op.j2, op.j1+n)})
			groups = append(groups, group)
			group = nil
			op.i1, op.j1 = max(op.i1, op.i2-n), max(op.j1, op.j2-n)
		}
		group = append(group, op)
	}
	if len(group) > 0 && !(len(group) == 1 && group[0].tag == '=') {
		groups = append(groups, group)
	}
	return groups
}
