package metrics

import (
	"math"
	"math/big"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A Score is what an evaluation comes to: the mean of the loss over the rows, and the metrics of a Set. As a Set, it depends only on the steps that it was given:
// those that several machines have added, and Merge or MergeState has joined, come to the same bits. It is for one goroutine.
type Score struct {
	loss  string // empty: none
	mean  mean
	set   *Set
	names []string
	at    []int // places in names of the variables of set
	rows  int64
}

// NewScore returns the score of no rows. loss is the variable whose mean is Loss; empty: none.
func NewScore(loss string, specs ...Spec) (*Score, error) {
	s := &Score{loss: loss}
	var err error
	if s.set, err = Of(specs...); err != nil {
		return nil, err
	}
	if loss != "" {
		s.names = append(s.names, loss)
	}
	for _, name := range s.set.names {
		i := slices.Index(s.names, name)
		if i < 0 {
			i = len(s.names)
			s.names = append(s.names, name)
		}
		s.at = append(s.at, i)
	}
	return s, nil
}

// Names returns the variables to fetch, each once, the loss first.
func (s *Score) Names() []string { return slices.Clone(s.names) }

// Labels returns what the results are called, in their order.
func (s *Score) Labels() []string {
	if s.loss == "" {
		return s.set.Labels()
	}
	return append([]string{Loss}, s.set.Labels()...)
}

// Rows returns how many rows were added.
func (s *Score) Rows() int64 { return s.rows }

// Add adds a step of so many rows. fetched are the variables of Names, in that order. A loss of several elements has no mean.
func (s *Score) Add(rows int64, fetched []*tensor.Tensor) error {
	if len(fetched) != len(s.names) || rows < 0 {
		return fault.E(fault.InvalidArgument, fault.At("metrics"), fault.Gotf("%d variables of %d rows", len(fetched), rows), fault.Wantf("%d", len(s.names)))
	}
	values := make([]*tensor.Tensor, len(s.at))
	for i, at := range s.at {
		values[i] = fetched[at]
	}
	if err := s.set.Add(values); err != nil {
		return err
	}
	s.rows += rows
	if s.loss == "" || fetched[0].Len() != 1 {
		return nil
	}
	read, err := columnOf(s.loss, fetched[0])
	if err == nil {
		s.mean.add(read(0), rows)
	}
	return err
}

// Merge adds the rows of another score of the same loss and metrics, which does not change.
func (s *Score) Merge(other *Score) error {
	if s.loss != other.loss {
		return fault.E(fault.InvalidArgument, fault.At("metrics"), fault.Got("a merge of scores of other losses"), fault.Want("equal losses"))
	}
	if err := s.set.Merge(other.set); err != nil {
		return err
	}
	s.mean.merge(&other.mean)
	s.rows += other.rows
	return nil
}

// Results returns the mean of the loss, if there is one, and the values of all metrics, in the order of NewScore.
func (s *Score) Results() ([]Result, error) {
	var results []Result
	if s.mean.rows > 0 {
		results = append(results, Result{Name: Loss, Kind: Loss, Value: s.mean.value()})
	}
	values, err := s.set.Results()
	return append(results, values...), err
}

// A mean is the mean of values, each of which counts for some rows. It is exact until value rounds it once.
type mean struct {
	sum   sum
	rows  int64
	other float64 // the sum of values that are not finite; it does not depend on their order
}

func (m *mean) add(v float64, rows int64) {
	m.rows += rows
	if math.IsNaN(v) || math.IsInf(v, 0) {
		m.other += v
		return
	}
	m.sum.addProduct(v, float64(rows))
}

func (m *mean) merge(o *mean) {
	m.sum.merge(&o.sum)
	m.rows, m.other = m.rows+o.rows, m.other+o.other
}

func (m *mean) value() float64 {
	if m.other != 0 {
		return m.other
	}
	v, _ := new(big.Float).Quo(m.sum.value(), new(big.Float).SetInt64(m.rows)).Float64()
	return v
}
