package pserver

import (
	"bytes"
	"slices"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A since keeps what has changed since a server has written its whole part of a checkpoint: the base. The next parts need no more than that, if it is at most
// half of all.
//
// A slice is looked at in blocks of whole rows. Its copy is that of the last cut. When a block differs from its copy, at the next cut, it is copied and marked.
// So what is not marked is what the base has, whatever became of the cuts in between. Who copies and writes a cut uses it, one cut after the other.
type since struct {
	copies []*tensor.Tensor // of the slices, as the last cut has them
	marks  [][]bool         // the blocks of each that have changed since base; nil: all have
	name   string           // of the checkpoint that has base
	base   *job.Shard       // whole; nil: there is none
}

const (
	blockBytes = 4096    // that a block has at least, unless its slice has fewer
	maxChanges = 1 << 14 // pieces; what has changed in more places is written whole
)

// blockRows is how many rows of a tensor make a block; 0: the tensor is one.
func blockRows(t *tensor.Tensor) int64 {
	dims := t.Dims()
	if len(dims) == 0 || dims[0] == 0 || t.Bytes() <= blockBytes {
		return 0
	}
	return max(1, blockBytes*dims[0]/t.Bytes())
}

// refresh makes the copy of a slice equal to it, and marks what has changed.
func (s *since) refresh(i int, from *tensor.Tensor) {
	if from == nil {
		s.copies[i], s.marks[i] = nil, nil
		return
	}
	have := s.copies[i]
	if have == nil || have.DType() != from.DType() || !slices.Equal(have.Dims(), from.Dims()) {
		s.copies[i], s.marks[i] = from.Clone(), nil
		return
	}
	to, err := wire.Memory(have)
	now, err2 := wire.Memory(from)
	if err != nil || err2 != nil || s.marks[i] == nil {
		s.marks[i] = nil
		if have.CopyFrom(from) != nil {
			s.copies[i] = from.Clone()
		}
		return
	}
	each := len(now)
	if rows := blockRows(from); rows > 0 {
		each = int(rows * (from.Bytes() / from.Dims()[0]))
	}
	for block := range s.marks[i] {
		at := block * each
		end := min(at+each, len(now))
		if !bytes.Equal(to[at:end], now[at:end]) {
			copy(to[at:end], now[at:end])
			s.marks[i][block] = true
		}
	}
}

// begin makes what a server has written whole the base of later parts.
func (s *since) begin(name string, base *job.Shard) {
	s.name, s.base = name, base
	for i, t := range s.copies {
		blocks := int64(1)
		if rows := blockRows(t); rows > 0 {
			blocks = (t.Dims()[0] + rows - 1) / rows
		}
		s.marks[i] = make([]bool, blocks)
	}
}

// changes returns the pieces of whole that have changed since the base. ok is false if the whole is to be written: the base is none of those that stay, or
// what has changed is too much, or too scattered.
func (s *since) changes(whole []checkpoint.Piece, stay []string) (pieces []checkpoint.Piece, ok bool) {
	if s.base == nil || !slices.Contains(stay, s.name) {
		return nil, false
	}
	changed, all := int64(0), s.base.Bytes // as written: a table that grows has few of its rows
	for i, p := range whole {
		marks, rows := s.marks[i], blockRows(p.Value)
		if marks == nil {
			return nil, false
		}
		if rows == 0 {
			if marks[0] {
				pieces, changed = append(pieces, p), changed+p.Value.Bytes()
			}
			continue
		}
		for from := 0; from < len(marks); from++ {
			if !marks[from] {
				continue
			}
			to := from
			for to < len(marks) && marks[to] {
				to++
			}
			part, first, end := p, int64(from)*rows, min(int64(to)*rows, p.Rows)
			var err error
			if part.Value, err = p.Value.Rows(first, end); err != nil {
				return nil, false
			}
			part.FirstRow, part.Rows, part.Short = p.FirstRow+first, end-first, false
			pieces, changed, from = append(pieces, part), changed+part.Value.Bytes(), to
		}
		if len(pieces) > maxChanges || 2*changed > all {
			return nil, false
		}
	}
	return pieces, 2*changed <= all
}
