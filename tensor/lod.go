package tensor

import (
	"encoding/binary"
	"fmt"

	"github.com/edl-go/edl/fault"
)

// MaxLoDLevel is the largest number of LoD levels that a stream or a field of a dataset has, unless Limits says otherwise.
const MaxLoDLevel = 8

// CheckLoD returns an error if the LoD offsets of t do not divide the rows of t into sequences. Every level must start at 0 and must not fall. The innermost
// level must end at the number of rows, and each other level at the number of sequences of the next. A tensor without LoD passes.
func CheckLoD(t *Tensor) error {
	rows := int64(0)
	if len(t.dims) > 0 {
		rows = t.dims[0]
	}
	if got, want := lodMistake(t.lod, rows); got != "" {
		return fault.E(fault.ShapeMismatch, fault.Got(got), fault.Want(want))
	}
	return nil
}

// AppendLoD appends the sequences of one LoD to those of another, whose rows stand before its rows. Both have the same number of levels. A level of dst
// may be nil, which is one without sequences.
func AppendLoD(dst, lod [][]int64) {
	for i, level := range lod {
		if len(dst[i]) == 0 {
			dst[i] = []int64{0}
		}
		last := dst[i][len(dst[i])-1]
		for _, offset := range level[1:] {
			dst[i] = append(dst[i], last+offset)
		}
	}
}

// PartOf returns rows [from, to) of axis 0 of t, which share the elements of t. If rows form sequences, from and to count the sequences of the outermost level
// instead, and the result has the offsets of its sequences.
func PartOf(t *Tensor, from, to int64) (*Tensor, error) {
	if len(t.lod) == 0 {
		return t.Rows(from, to)
	}
	if sequences := int64(len(t.lod[0])) - 1; from < 0 || to < from || to > sequences {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("sequences [%d, %d)", from, to), fault.Wantf("a range within [0, %d)", sequences))
	}
	lod := make([][]int64, len(t.lod))
	for i, level := range t.lod {
		lod[i] = make([]int64, to-from+1)
		for j := range lod[i] {
			lod[i][j] = level[from+int64(j)] - level[from]
		}
		from, to = level[from], level[to]
	}
	part, err := t.Rows(from, to)
	if err == nil {
		part.lod = lod
	}
	return part, err
}

// Records returns how many records the rows of t are: the sequences of its outermost level, or its rows if it has no LoD.
func Records(t *Tensor) int64 {
	switch {
	case len(t.lod) > 0:
		return int64(len(t.lod[0])) - 1
	case len(t.dims) > 0:
		return t.dims[0]
	}
	return 0
}

// lodMistake describes the first mistake in a LoD over the given number of rows. Without a mistake got is empty.
func lodMistake(lod [][]int64, rows int64) (got, want string) {
	for i, level := range lod {
		if len(level) == 0 {
			return fmt.Sprintf("LoD level %d without offsets", i), "at least a 0"
		}
		if level[0] != 0 {
			return fmt.Sprintf("LoD level %d that starts at %d", i, level[0]), "0"
		}
		for j := 1; j < len(level); j++ {
			if level[j] < level[j-1] {
				return fmt.Sprintf("LoD level %d that falls from %d to %d", i, level[j-1], level[j]), "ascending offsets"
			}
		}
		below := rows
		if i+1 < len(lod) {
			below = int64(len(lod[i+1])) - 1
		}
		if last := level[len(level)-1]; last != below {
			return fmt.Sprintf("LoD level %d that ends at %d", i, last), fmt.Sprint(below)
		}
	}
	return "", ""
}

// parseLoD reads the given number of levels. at is the byte of their count.
func (s *Stream) parseLoD(src *source, levels uint64, at int64, limits Limits) error {
	if levels > uint64(limits.LoDLevels) {
		return tooLarge(at, fmt.Sprintf("%d LoD levels", levels), fmt.Sprintf("at most %d", limits.LoDLevels))
	}
	s.LoD = s.LoD[:0]
	for range levels {
		at := src.offset
		word, err := src.next(8, "size of a LoD level")
		if err != nil {
			return err
		}
		size := binary.LittleEndian.Uint64(word)
		if size > uint64(limits.Bytes) {
			return tooLarge(at, fmt.Sprintf("a LoD level of %d bytes", size), fmt.Sprintf("at most %d", limits.Bytes))
		}
		if size == 0 || size%8 != 0 {
			return corrupt(at, fmt.Sprintf("a LoD level of %d bytes", size), "a positive multiple of 8")
		}
		b, err := src.next(int64(size), "LoD offsets")
		if err != nil {
			return err
		}
		s.addLevel(b)
	}
	return nil
}

// addLevel appends one level. It reuses the memory of an earlier Parse.
func (s *Stream) addLevel(b []byte) {
	var level []int64
	if n := len(s.LoD); n < cap(s.LoD) {
		level = s.LoD[:n+1][n][:0]
	}
	for ; len(b) > 0; b = b[8:] {
		level = append(level, int64(binary.LittleEndian.Uint64(b)))
	}
	s.LoD = append(s.LoD, level)
}

// checkLoD checks that each level starts at 0, does not fall, and ends at the number of entries of the next level, for the last level at dims[0].
// at is the offset after the stream.
func (s *Stream) checkLoD(at int64) error {
	rows := int64(0)
	if len(s.Dims) > 0 {
		rows = s.Dims[0]
	}
	if got, want := lodMistake(s.LoD, rows); got != "" {
		return corrupt(at, got, want)
	}
	return nil
}

func cloneLoD(lod [][]int64) [][]int64 {
	if len(lod) == 0 {
		return nil
	}
	c := make([][]int64, len(lod))
	for i, level := range lod {
		c[i] = append([]int64(nil), level...)
	}
	return c
}

func appendLoD(dst []byte, lod [][]int64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(lod)))
	for _, level := range lod {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(level))*8)
		dst = appendInt64s(dst, level)
	}
	return dst
}
