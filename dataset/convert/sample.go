package convert

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A sampleWriter writes samples of one shape and reuses its memory.
type sampleWriter struct {
	w        dataset.RecordWriter
	features *tensor.Tensor   // float32; left out of a sample with keys if it has no elements
	keys     []*tensor.Tensor // int64[1] each
	label    *tensor.Tensor   // [1]
	values   []*tensor.Tensor // of a sample: those above in their order
	record   []byte
	written  int
}

func newSampleWriter(w dataset.RecordWriter, label tensor.DType, featureDims ...int64) (*sampleWriter, error) {
	features, err := tensor.New(tensor.Float32, featureDims...)
	if err != nil {
		return nil, err
	}
	l, err := tensor.New(label, 1)
	if err != nil {
		return nil, err
	}
	return &sampleWriter{w: w, features: features, label: l, values: []*tensor.Tensor{features, l}}, nil
}

// addKeys gives a sample n fields of keys between features and label.
func (s *sampleWriter) addKeys(n int) error {
	if n == 0 {
		return nil
	}
	if s.values = s.values[:0]; s.features.Len() > 0 {
		s.values = append(s.values, s.features)
	}
	for range n {
		key, err := tensor.New(tensor.Int64, 1)
		if err != nil {
			return err
		}
		s.keys = append(s.keys, key)
	}
	s.values = append(append(s.values, s.keys...), s.label)
	return nil
}

// write writes the present features, keys and label.
func (s *sampleWriter) write() error {
	s.record = dataset.AppendRecord(s.record[:0], s.values...)
	if err := s.w.Write(s.record); err != nil {
		return err
	}
	s.written++
	return nil
}

// parseFloat reads a finite number of the given width in bits.
func parseFloat(text string, bits int) (float64, *fault.Fault) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), bits)
	switch {
	case err != nil:
		return 0, fault.E(fault.Corrupt, fault.Got(fault.Quote(text)), fault.Want("a number that fits into float"+strconv.Itoa(bits)))
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fault.E(fault.Corrupt, fault.Got(fault.Quote(text)), fault.Want("a finite number"))
	}
	return v, nil
}

// noKey is no key of a table that grows.
const noKey = -1

// IsNoKey reports whether a text is the number -1, which is no key.
func IsNoKey(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && n == noKey
}

func errNoKey(got string) *fault.Fault {
	return fault.E(fault.Corrupt, fault.Got(fault.Quote(got)), fault.Want("a text, or a whole number but -1, which is no key"), fault.Hint("leave the record out, or write a text for what is missing"))
}

// keyOf is the key of a cell of a table: a whole number is its own key. An empty cell has none.
func keyOf(text string) (int64, *fault.Fault) {
	text = strings.TrimSpace(text)
	if text == "" || IsNoKey(text) {
		return 0, errNoKey(text)
	}
	return Key(text), nil
}

// parseInt reads a decimal integer.
func parseInt(text string) (int64, *fault.Fault) {
	v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fault.E(fault.Corrupt, fault.Got(fault.Quote(text)), fault.Want("an integer"))
	}
	return v, nil
}

// atLine is the place of a fault in a text.
func atLine(line int) string { return fmt.Sprintf("line %d", line) }
