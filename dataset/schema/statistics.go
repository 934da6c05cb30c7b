package schema

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Statistics are what the rows for training have in a column.
type Statistics struct {
	Values   int64 `yaml:"values"`            // rows with a value
	Missing  int64 `yaml:"missing,omitempty"` // rows without
	Distinct int64 `yaml:"distinct,omitempty"`
	// Of numbers, after they are clipped. Deviation is the standard deviation of the values, sqrt(mean((x-mean)^2)).
	Min       float64 `yaml:"min,omitempty"`
	Max       float64 `yaml:"max,omitempty"`
	Mean      float64 `yaml:"mean,omitempty"`
	Deviation float64 `yaml:"deviation,omitempty"`
}

// Moments are those of numbers in one pass: the updating formulas of B. P. Welford, Note on a method for calculating corrected sums of squares and products (1962).
type Moments struct {
	N              int64
	Min, Max, Mean float64
	squares        float64 // sum of (x-mean)^2
}

// Add adds a number.
func (m *Moments) Add(x float64) {
	if m.N++; m.N == 1 {
		m.Min, m.Max = x, x
	}
	m.Min, m.Max = min(m.Min, x), max(m.Max, x)
	d := x - m.Mean
	m.Mean += d / float64(m.N)
	m.squares += d * (x - m.Mean)
}

// Deviation is sqrt(mean((x-mean)^2)), and 0 without numbers.
func (m *Moments) Deviation() float64 {
	if m.N == 0 {
		return 0
	}
	return math.Sqrt(m.squares / float64(m.N))
}

// A counter counts texts, up to a number of different ones.
type counter struct {
	counts map[string]int64
	most   int
	over   bool // there were more, so the counts are dropped
}

func newCounter(most int) *counter { return &counter{counts: map[string]int64{}, most: most} }

func (c *counter) add(text string) {
	if c.over {
		return
	}
	if _, there := c.counts[text]; !there && len(c.counts) == c.most {
		c.counts, c.over = nil, true
		return
	}
	c.counts[text]++
}

// byFrequency returns the texts, the most frequent first, and equally frequent ones in the order of their bytes.
func (c *counter) byFrequency() []string {
	return slices.SortedFunc(maps.Keys(c.counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.counts[b], c.counts[a]), cmp.Compare(a, b))
	})
}

// inOrder returns the texts in the order of their numbers, where all are numbers, else of their bytes.
func (c *counter) inOrder() []string {
	return slices.SortedFunc(maps.Keys(c.counts), func(a, b string) int {
		x, fx := parseFloat(a)
		y, fy := parseFloat(b)
		if fx == nil && fy == nil {
			return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
		}
		return cmp.Compare(a, b)
	})
}
