package convert

import (
	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/tensor"
)

// A sampleWriter writes samples of one shape, each from the same memory.
type sampleWriter struct {
	w        dataset.RecordWriter
	features *tensor.Tensor // float32
	label    *tensor.Tensor // [1]
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
	return &sampleWriter{w: w, features: features, label: l}, nil
}

// write writes what features and label hold now.
func (s *sampleWriter) write() error {
	s.record = dataset.AppendRecord(s.record[:0], s.features, s.label)
	if err := s.w.Write(s.record); err != nil {
		return err
	}
	s.written++
	return nil
}
