package pserver

import (
	"context"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/tensor"
)

// A since knows what a server has written whole of a checkpoint: the base. The next parts need no more than what has changed since, if it is at most half of all.
//
// A slice is looked at in blocks of whole rows, of which the sums are kept: 8 bytes for each block of 4 KB. A block that has another sum than in the base has
// changed, whatever became of the cuts in between. Blocks with other elements have equal sums of 64 bits by chance alone, in one of 2^64 cases. Who writes a cut
// uses it, one cut after the other.
type since struct {
	name string     // of the checkpoint that has base
	base *job.Shard // whole; nil: there is none
	sums [][]uint64 // of the blocks of each slice in it
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

// begin makes what a server has written whole the base of later parts.
func (s *since) begin(name string, base *job.Shard, written []*summedSlice) {
	s.name, s.base, s.sums = name, base, make([][]uint64, len(written))
	for i, slice := range written {
		s.sums[i] = slice.end()
	}
}

// changes returns the pieces of whole that have changed since the base. ok is false if the whole is to be written: the base is none of those that stay, or
// what has changed is too much, or too scattered.
func (s *since) changes(ctx context.Context, whole []checkpoint.Piece, cut *frozenCut, stay []string) (pieces []checkpoint.Piece, ok bool, err error) {
	if s.base == nil || !slices.Contains(stay, s.name) || len(s.sums) != len(whole) {
		return nil, false, nil
	}
	changed, most := int64(0), s.base.Bytes/2 // as written: a table that grows has few of its rows
	firsts := make([]int64, len(whole))       // what is before has not changed, of each slice
	for i, p := range whole {
		one, height, begun := cut.all[i], blockRows(cut.tensors[i]), len(pieces)
		each, n := blocksOf(cut.tensors[i])
		if len(s.sums[i]) != n {
			return nil, false, nil
		}
		last := -2 // block that has changed
		err := eachBlock(ctx, one, each, func(block int, b []byte) (more bool) {
			if sumOf(b) == s.sums[i][block] {
				return true
			}
			first, rows := int64(block)*height, height
			if rows = min(rows, p.Rows-first); height == 0 {
				rows = p.Rows
			}
			if last == block-1 {
				pieces[len(pieces)-1].Rows += rows
			} else {
				part := p
				part.FirstRow, part.Rows, part.Short, part.From = p.FirstRow+first, rows, false, section{one, int64(block) * int64(each)}
				pieces = append(pieces, part)
			}
			last, changed = block, changed+int64(len(b))
			return changed <= most && len(pieces) <= maxChanges
		})
		if err != nil || changed > most || len(pieces) > maxChanges {
			return nil, false, err
		}
		firsts[i] = int64(len(one.memory))
		if len(pieces) > begun {
			firsts[i] = pieces[begun].From.(section).begin
		}
	}
	for i, first := range firsts {
		cut.all[i].Done(first)
	}
	return pieces, true, nil
}

// eachBlock calls f for the blocks of a slice, of each bytes but the last, until it wants no more.
func eachBlock(ctx context.Context, from *frozen, each int, f func(block int, b []byte) (more bool)) error {
	all := len(from.memory)
	buffer := compared.Get().(*[]byte)
	defer compared.Put(buffer)
	most := min(all, each*max(1, readBytes/max(1, each)))
	*buffer = slices.Grow((*buffer)[:0], most)
	room := (*buffer)[:most]
	for at := 0; at < all; {
		if cause := context.Cause(ctx); cause != nil {
			return fault.E(fault.Canceled, fault.Cause(cause))
		}
		room = room[:min(len(room), all-at)]
		if _, err := from.ReadAt(room, int64(at)); err != nil {
			return err
		}
		for i := 0; i < len(room); i += each {
			if !f((at+i)/each, room[i:min(i+each, len(room))]) {
				return nil
			}
		}
		at += len(room)
	}
	return nil
}

// compared is memory for what is compared: as little garbage as rounds make.
var compared = sync.Pool{New: func() any { return new([]byte) }}

// readBytes is how much of a slice is compared at a time, unless a block has more.
const readBytes = 1 << 20

// A section is the rest of a slice behind what has not changed. It is a checkpoint.Source.
type section struct {
	of    *frozen
	begin int64
}

func (s section) ReadAt(p []byte, offset int64) (int, error) { return s.of.ReadAt(p, s.begin+offset) }

func (s section) Done(before int64) { s.of.Done(s.begin + before) }

// A summedSlice is a slice that is read to be written whole. It sums its blocks up when they are read first, which happens in order.
type summedSlice struct {
	*frozen
	each   int   // bytes of a block
	next   int64 // byte to be summed
	within int   // bytes of the block that are
	digest xxhash.Digest
	sums   []uint64
}

func newSummedSlice(from *frozen, t *tensor.Tensor) *summedSlice {
	each, n := blocksOf(t)
	s := &summedSlice{frozen: from, each: each, sums: make([]uint64, 0, n)}
	s.digest.Reset()
	return s
}

// ReadAt implements io.ReaderAt.
func (s *summedSlice) ReadAt(p []byte, offset int64) (int, error) {
	n, err := s.frozen.ReadAt(p, offset)
	if err == nil && offset <= s.next && s.next < offset+int64(n) {
		s.add(p[s.next-offset : n])
	}
	return n, err
}

// add sums up what follows.
func (s *summedSlice) add(b []byte) {
	s.next += int64(len(b))
	for len(b) > 0 {
		part := b[:min(len(b), s.each-s.within)]
		b = b[len(part):]
		if len(part) == s.each {
			s.sums = append(s.sums, sumOf(part))
			continue
		}
		_, _ = s.digest.Write(part) // never fails
		if s.within += len(part); s.within == s.each {
			s.endBlock()
		}
	}
}

func (s *summedSlice) endBlock() {
	s.sums = append(s.sums, max(1, s.digest.Sum64()))
	s.digest.Reset()
	s.within = 0
}

// end returns the sums of all blocks.
func (s *summedSlice) end() []uint64 {
	if s.within > 0 {
		s.endBlock()
	}
	return s.sums
}
