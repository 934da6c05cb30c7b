package metrics

import (
	"math/big"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A Metric is one metric of the rows that were added. It is for one goroutine.
type Metric struct {
	names   Spec
	kind    kind
	rows    int64
	sums    []sum
	ranking *ranking // of AUC
	row     row
}

// New returns a metric of no rows. kind is one of Kinds, such as "auc" or "top-5".
func New(kind string) (*Metric, error) {
	return newMetric(Spec{Kind: kind, Prediction: "prediction", Label: "label", Weight: "weight"})
}

// newMetric returns a metric whose errors name the variables of names.
func newMetric(names Spec) (*Metric, error) {
	k, err := kindOf(names.Kind)
	if err != nil {
		return nil, err
	}
	m := &Metric{names: names, kind: k, sums: make([]sum, k.sums)}
	if names.Kind == "auc" {
		m.ranking = newRanking(maxScores)
	}
	return m, nil
}

// Add adds the rows of a batch. prediction is float32 or float64 with dims [rows], [rows, 1] or [rows, classes], label has one number for each row, and so
// has weight, unless it is nil: then each row weighs 1. A number that is not finite, a probability, label or weight out of range, and a shape that does
// not fit are errors that name the row, counted from the first that was ever added; the metric then has the rows before it, and is of no further use.
func (m *Metric) Add(prediction, label, weight *tensor.Tensor) error {
	b, err := batchOf(m.names, m.rows, prediction, label, weight)
	if err != nil {
		return err
	}
	if err := b.checkColumns(m.names, m.kind.reads); err != nil {
		return err
	}
	for i := range b.rows {
		b.read(i, &m.row)
		if err := b.check(m.names, m.kind.reads, i, &m.row); err != nil {
			return err
		}
		if m.ranking == nil {
			m.kind.add(m.sums, &m.row)
		} else if err := m.addScore(); err != nil {
			return err
		}
	}
	m.rows += int64(b.rows)
	return nil
}

// addScore counts the row for AUC. Of two scores, the last is that of label 1, as in Fluid's op auc.
func (m *Metric) addScore() error {
	if m.row.weight == 0 {
		return nil
	}
	return m.ranking.add(m.row.probability(), m.row.class() == 1, m.row.weight)
}

// Merge adds the rows of another metric of the same kind, which does not change.
func (m *Metric) Merge(other *Metric) error {
	if m.names.Kind != other.names.Kind {
		return fault.E(fault.InvalidArgument, fault.At("metrics"), fault.Gotf("a merge of %s and %s", m.names.Kind, other.names.Kind), fault.Want("metrics of one kind"))
	}
	if m.ranking != nil {
		if err := m.ranking.merge(other.ranking); err != nil {
			return err
		}
	}
	for i := range m.sums {
		m.sums[i].merge(&other.sums[i])
	}
	m.rows += other.rows
	return nil
}

// Rows returns how many rows were added.
func (m *Metric) Rows() int64 { return m.rows }

// Value returns the metric of all rows that were added. It is NaN where these do not define it: of no rows, AUC of rows with one label, R2 of equal labels,
// precision where nothing is predicted to be 1, recall and calibration where no label is 1. bound is how far the value may be from that of the exact
// scores. It is 0 but for AUC of more than 524,288 different scores.
func (m *Metric) Value() (value, bound float64, err error) {
	if m.ranking != nil {
		return m.ranking.area()
	}
	values := make([]*big.Float, len(m.sums))
	for i := range m.sums {
		values[i] = m.sums[i].value()
	}
	return m.kind.value(values), 0, nil
}
