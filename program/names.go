package program

import (
	"fmt"
	"strconv"
	"strings"
)

// maxNumbers bounds how many numbered parts of one name are looked at; "fc_0.w_0" has two.
const maxNumbers = 8

// UniqueName returns prefix_0, prefix_1, ... in the order of the calls. The numbering belongs to the program, so the
// same calls give the same names in every process. The first call takes the numbers that stand in the names of variables already, as in a
// program that was decoded: when there is a variable "fc_0.w_0", both "fc" and "fc_0.w" go on with 1.
func (p *Program) UniqueName(prefix string) string {
	if p.counters == nil {
		p.countNames()
	}
	n := p.counters[prefix]
	p.counters[prefix]++
	return fmt.Sprintf("%s_%d", prefix, n)
}

// countNames takes the counters from the names of variables.
func (p *Program) countNames() {
	p.counters = map[string]int{}
	for _, b := range p.Blocks {
		for _, name := range b.order {
			p.countName(name)
		}
	}
}

// countName takes every part of a name that ends in _<number> before a dot, an @ or the end.
func (p *Program) countName(name string) {
	from := 0
	for range maxNumbers {
		end := strings.IndexAny(name[from:], ".@")
		last := end < 0
		if last {
			end = len(name)
		} else {
			end += from
		}
		if bar := strings.LastIndexByte(name[:end], '_'); bar > 0 {
			if n, err := strconv.ParseUint(name[bar+1:end], 10, 31); err == nil {
				p.counters[name[:bar]] = max(p.counters[name[:bar]], int(n)+1)
			}
		}
		if last {
			return
		}
		from = end + 1
	}
}
