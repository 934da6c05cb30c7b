package metrics

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
)

// stateVersion begins the bytes of a state. Processes of one job have one build, so a reader knows one version.
const stateVersion = 1

// AppendState appends what the score has added up, for MergeState of a score of the same loss and metrics: on another machine, so that parts of an evaluation
// become one. The form is no file format; it may change.
//
//	version, rows of the score, mean, then for each metric its rows, its sums, and for AUC its scores
func (s *Score) AppendState(to []byte) []byte {
	to = append(to, stateVersion)
	to = binary.AppendUvarint(to, uint64(s.rows))
	to = appendSum(to, &s.mean.sum)
	to = binary.AppendUvarint(to, uint64(s.mean.rows))
	to = binary.LittleEndian.AppendUint64(to, math.Float64bits(s.mean.other))
	for _, m := range s.set.metrics {
		to = binary.AppendUvarint(to, uint64(m.rows))
		for i := range m.sums {
			to = appendSum(to, &m.sums[i])
		}
		if m.ranking != nil {
			to = m.ranking.append(to)
		}
	}
	return to
}

// MergeState adds the rows of a state that AppendState has written. Bytes that are none are fault.Corrupt, and the score is then as before.
func (s *Score) MergeState(b []byte) error {
	specs := make([]Spec, len(s.set.metrics))
	for i, m := range s.set.metrics {
		specs[i] = m.names
	}
	other, err := NewScore(s.loss, specs...)
	if err != nil {
		return err
	}
	r := &stateReader{b: b}
	if v := r.bytes(1); len(v) == 1 && v[0] != stateVersion {
		r.bad = true
	}
	other.rows = r.count()
	r.sum(&other.mean.sum)
	other.mean.rows, other.mean.other = r.count(), math.Float64frombits(r.word())
	for _, m := range other.set.metrics {
		m.rows = r.count()
		for i := range m.sums {
			r.sum(&m.sums[i])
		}
		if m.ranking != nil {
			r.ranking(m.ranking)
		}
	}
	if r.bad || len(r.b) > 0 {
		return fault.E(fault.Corrupt, fault.At("metrics"), fault.Gotf("%d bytes that are no state of these metrics", len(b)))
	}
	if s.rows > math.MaxInt64-other.rows {
		return fault.E(fault.TooLarge, fault.At("metrics"), fault.Got("more rows than an int64 counts"))
	}
	return s.Merge(other)
}

// appendSum appends the digits of a sum that are not zero: the number of the first, how many they are, and the digits.
func appendSum(to []byte, s *sum) []byte {
	c := *s
	c.carry()
	first, end := 0, sumDigits
	for first < end && c.digits[first] == 0 {
		first++
	}
	for end > first && c.digits[end-1] == 0 {
		end--
	}
	to = append(to, byte(first), byte(end-first))
	for _, d := range c.digits[first:end] {
		to = binary.LittleEndian.AppendUint64(to, uint64(d))
	}
	return to
}

// append appends the shift, and the bins in the order of their keys, each key as its distance from the one before.
func (r *ranking) append(to []byte) []byte {
	bins := slices.Clone(r.pending)
	whole := &ranking{limit: math.MaxInt, shift: r.shift, bins: slices.Clone(r.bins), pending: bins}
	if whole.settle() != nil { // weights whose sum is too large: the merge says so
		whole.bins = append(slices.Clone(r.bins), r.pending...)
		slices.SortStableFunc(whole.bins, byKey)
	}
	to = append(to, byte(whole.shift))
	to = binary.AppendUvarint(to, uint64(len(whole.bins)))
	last := uint64(0)
	for _, b := range whole.bins {
		to = binary.AppendUvarint(to, b.key-last)
		last = b.key
		for _, w := range []weight{b.positive, b.negative} {
			to = binary.AppendUvarint(to, w.high)
			to = binary.LittleEndian.AppendUint64(to, w.low)
		}
	}
	return to
}

// leastBin is how many bytes a bin takes at least.
const leastBin = 1 + 2*(1+8)

// A stateReader takes a state apart. After the first mistake it returns zeros, and bad is true.
type stateReader struct {
	b   []byte
	bad bool
}

func (r *stateReader) bytes(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *stateReader) word() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *stateReader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads a number of rows.
func (r *stateReader) count() int64 {
	v := r.number()
	r.bad = r.bad || v > math.MaxInt64
	return int64(v)
}

// sum reads what appendSum writes: digits in [0, 2^32), but for the last of all, which has the sign.
func (r *stateReader) sum(s *sum) {
	head := r.bytes(2)
	if head == nil || int(head[0])+int(head[1]) > sumDigits {
		r.bad = true
		return
	}
	for i := int(head[0]); i < int(head[0])+int(head[1]); i++ {
		d := int64(r.word())
		least, most := int64(0), int64(math.MaxUint32)
		if i == sumDigits-1 {
			least, most = math.MinInt32, math.MaxInt32
		}
		r.bad = r.bad || d < least || d > most
		s.digits[i] = d
	}
}

func (r *stateReader) ranking(to *ranking) {
	head := r.bytes(1)
	n := r.number()
	if r.bad || head[0] > 63 || n > uint64(len(r.b)/leastBin) {
		r.bad = true
		return
	}
	to.shift = int(head[0])
	to.bins = make([]bin, 0, n)
	key := uint64(0)
	for range n {
		step := r.number()
		if r.bad = r.bad || step > math.MaxUint64-key; r.bad {
			return
		}
		key += step
		r.bad = r.bad || key>>to.shift<<to.shift != key
		to.bins = append(to.bins, bin{key: key, positive: r.weight(), negative: r.weight()})
	}
}

func (r *stateReader) weight() weight { return weight{r.number(), r.word()} }
