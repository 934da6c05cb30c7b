package executor

import (
	"context"
	"io"
	"iter"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// FileSource is the BatchSource of a local run: it reads whole files, pass after pass.
type FileSource struct {
	*Reader
	passes int

	pass  int
	round uint64
	next  func() (*dataset.Batch, error, bool) // of the pass that is open, else nil
	stop  func()
	batch Batch
}

// OpenFiles opens the dataset that p reads, as OpenReader does. passes is how often it is read; 0 leaves that to the program. The caller
// ends the source with Close.
func OpenFiles(ctx context.Context, p *program.Program, data map[string][]string, passes int) (*FileSource, error) {
	r, err := OpenReader(ctx, p, data)
	if err != nil {
		return nil, err
	}
	if passes == 0 {
		passes = r.pipeline.Passes
	}
	return &FileSource{Reader: r, passes: passes}, nil
}

// Next implements BatchSource.
func (s *FileSource) Next(ctx context.Context) (*Batch, error) {
	for s.pass < s.passes {
		if s.next == nil {
			s.next, s.stop = iter.Pull2(s.batches(ctx))
		}
		b, err, ok := s.next()
		if err != nil {
			return nil, err
		}
		if ok {
			return s.deliver(b), nil
		}
		s.leave()
		s.pass++
	}
	return nil, io.EOF
}

// batches is the pipeline of one pass.
func (s *FileSource) batches(ctx context.Context) iter.Seq2[*dataset.Batch, error] {
	return s.Segment(ctx, Segment{Pass: s.pass, Open: func(from int64) iter.Seq2[dataset.Record, error] {
		return s.data.Records(ctx, from, s.data.NumRecords())
	}})
}

func (s *FileSource) deliver(b *dataset.Batch) *Batch {
	s.batch = Batch{Tensors: b.Tensors, GlobalRows: int64(b.GlobalRows), Pass: s.pass, Records: b.Records,
		Step: ops.Step{Round: s.round, RowOffset: int64(b.RowOffset), Rows: int64(b.Rows)}}
	s.round++
	return &s.batch
}

// Close ends what the source has started.
func (s *FileSource) Close() {
	s.leave()
	s.Reader.Close() // an error of a driver does not make what was read wrong
}

// leave ends the pass that is open.
func (s *FileSource) leave() {
	if s.stop != nil {
		s.stop()
	}
	s.next, s.stop = nil, nil
}
