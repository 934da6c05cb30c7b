package sparse

import (
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// pages keep the memory of a table that grows, and of its moments, near to what its rows need. Rows of a region come into use from its first on. They begin in small
// pages. When all that lies in a large page is in use, it becomes one, so that lookups cost no walk through the page table. With large pages from the
// beginning, each region of each tensor would take a large page for its last row, and another one for the first row of the region behind it.
type pages struct {
	tensors []*tensor.Tensor // [rows, ...]
	region  int              // rows
	next    []int            // of each region, the number of rows in use from which another large page is; nil before the first run
}

// begin looks at the rows that are in use already, once. An op calls it when it runs, since nobody else writes to the table then.
func (p *pages) begin(t kernel.KeyTable) {
	if p.next != nil {
		return
	}
	for _, t := range p.tensors {
		tensor.SmallPages(t)
	}
	p.next = make([]int, t.Regions())
	for region := range p.next {
		p.use(region*p.region, t.UsedOf(t.First+region))
	}
}

// uses notes that a row of the tensors has come into use.
func (p *pages) uses(row int) {
	if region := row / p.region; row%p.region+1 >= p.next[region] {
		p.use(region*p.region, row%p.region+1)
	}
}

// use makes large pages of what is in use: n rows from the first of a region on.
func (p *pages) use(first, n int) {
	next := p.region + 1
	for _, t := range p.tensors {
		width := t.Len() / int(t.Dims()[0])
		if end := tensor.LargePages(t, first*width, (first+n)*width); end/width < first+next {
			next = max((end+width-1)/width-first, n+1)
		}
	}
	p.next[first/p.region] = next
}
