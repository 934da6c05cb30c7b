package compress

import (
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// The form topk is sparsification with error feedback, as in Deep Gradient Compression (Lin et al. 2018) without its momentum correction. Each trainer
// keeps a residual R for each gradient. A step does, for each slice of n elements with k = Form.Entries(n):
//
//	R = R + G                          in float32
//	send the k elements of R that have the largest magnitude, with their indices; of equal ones those of the lowest indices
//	set these k elements of R to 0
//
// So what was sent and what is in R is the sum of all gradients, up to the roundings of the sum. Magnitudes are ordered by their bits: NaN is greater than
// infinity, and infinity is greater than all numbers. So a gradient that is not finite is sent in the step that computes it, and not kept back.
//
// What travels is an int32 tensor of dims [2, k], whose size never changes: row 0 has the indices, ascending; row 1 has the elements, as the bits of float32.

// MaxSelected bounds the elements of a slice that is sent in the form topk: an index is an int32.
const MaxSelected = math.MaxInt32

// EntriesOf divides what travels into indices and bits of elements. It reports false if t is not such a tensor for a slice of so many elements. It does
// not look at the indices.
func EntriesOf(t *tensor.Tensor, elements int) (indices, bits []int32, ok bool) {
	dims := t.Dims()
	if t.DType() != tensor.Int32 || len(dims) != 2 || dims[0] != 2 || dims[1] > int64(elements) {
		return nil, nil, false
	}
	all := t.Int32s()
	return all[:len(all)/2], all[len(all)/2:], true
}

// CheckIndices refuses indices that are not ascending, from more than after to less than elements.
func CheckIndices(indices []int32, after int32, elements int) error {
	for _, i := range indices {
		if i <= after || int(i) >= elements {
			return fault.E(fault.Corrupt, fault.Gotf("an entry for element %d behind one for element %d, of %d", i, after, elements),
				fault.Want("entries for elements of the slice, in ascending order"))
		}
		after = i
	}
	return nil
}

// Selected adds a gradient to a residual, and returns what travels of them in the form topk: the entries that it moves there.
func Selected(residual, gradient []float32, f Form) (*tensor.Tensor, error) {
	entries, err := tensor.New(tensor.Int32, 2, f.Entries(int64(len(residual))))
	if err != nil {
		return nil, err
	}
	indices, bits, _ := EntriesOf(entries, len(residual))
	NewSelector(len(residual), len(indices)).Select(indices, bits, residual, gradient)
	return entries, nil
}

// SelectNone makes entries that move nothing: zeros, for the first elements.
func SelectNone(indices, bits []int32) {
	for i := range indices {
		indices[i], bits[i] = int32(i), 0
	}
}

// A Selector selects entries of slices of one length. It has the memory for that, so one goroutine at a time may use it.
type Selector struct {
	sample []float32 // of the slice; empty: none is taken, because the slice is too small or most of it is sent
	rank   int       // of the element of the sample, from the largest on, from which on elements are candidates
	places []int32   // of candidates
	values []float32 // their elements
	counts [1 << 11]uint32
}

// Candidates are found by a sample in which so many elements are expected to be candidates. About half of those are sent. With so many the sample is far
// off in one of ten thousand cases, and then the selection only takes longer.
const sampled = 32

// NewSelector makes a selector of k entries from n elements.
func NewSelector(n, k int) *Selector {
	s := &Selector{rank: sampled}
	if k < 1 || n/8 < sampled*(n/(2*k)) {
		return s
	}
	s.sample = make([]float32, sampled*(n/(2*k)))
	s.places, s.values = make([]int32, min(n, 4*k)), make([]float32, min(n, 4*k))
	return s
}

// Select adds a gradient to a residual and moves the entries of largest magnitude from the residual to indices and bits, as the file comment says. The
// lengths are those of NewSelector.
func (s *Selector) Select(indices, bits []int32, residual, gradient []float32) {
	k := len(indices)
	guess, found, greater := s.add(residual, gradient)
	switch {
	case k == 0:
	case k <= found && found <= len(s.places):
		s.emitCandidates(indices, bits, residual, found)
	case greater < k && k <= found: // many elements have the magnitude that was guessed
		emit(indices, bits, residual, guess, k-greater)
	default:
		least, equal := s.kth(residual, k)
		emit(indices, bits, residual, least, equal)
	}
}

// emitCandidates is emit for a residual all of whose largest elements are among the first candidates.
func (s *Selector) emitCandidates(indices, bits []int32, residual []float32, found int) {
	places, values := s.places[:found], s.values[:found]
	least, equal := s.kth(values, len(indices))
	at := 0
	for i, x := range values {
		m := magnitude(x)
		if m < least || m == least && equal == 0 {
			continue
		}
		if m == least {
			equal--
		}
		indices[at], bits[at] = places[i], int32(math.Float32bits(x))
		residual[places[i]] = 0
		at++
	}
}

// emit moves the elements of magnitude least and more; of those that equal it, the first few.
func emit(indices, bits []int32, residual []float32, least uint32, equal int) {
	at := 0
	for i, x := range residual {
		m := magnitude(x)
		if m < least || m == least && equal == 0 {
			continue
		}
		if m == least {
			equal--
		}
		indices[at], bits[at] = int32(i), int32(math.Float32bits(x))
		residual[i] = 0
		at++
	}
}

// block is how many elements are added before they are looked at. They stay in the cache of a core.
const block = 4096

// add adds the gradient to the residual, and finds candidates: all elements of at least the magnitude that it guesses. It lists the first of them. greater is
// how many of them are greater than the guess.
func (s *Selector) add(residual, gradient []float32) (guess uint32, found, greater int) {
	if len(s.sample) == 0 {
		kernel.Axpy(residual, gradient, 1)
		return 0, 0, 0
	}
	guess = s.guess(residual, gradient)
	for from := 0; from < len(residual); from += block {
		part := residual[from:min(from+block, len(residual))]
		kernel.Axpy(part, gradient[from:][:len(part)], 1)
		for i, x := range part {
			m := magnitude(x)
			if m < guess {
				continue
			}
			if m > guess {
				greater++
			}
			if found < len(s.places) {
				s.places[found], s.values[found] = int32(from+i), x
			}
			found++
		}
	}
	return guess, found, greater
}

// guess returns a magnitude that about twice as many elements of the sum have as are to be sent, by a sample: one element of each run of equal
// length. It is the same for equal arguments. Whatever it returns, the result of Select is the same.
func (s *Selector) guess(residual, gradient []float32) uint32 {
	run := uint32(len(residual) / len(s.sample))
	chance := uint32(1)
	for i := range s.sample {
		chance = chance*1664525 + 1013904223 // so that the sample does not follow the columns of a matrix
		at := i*int(run) + int((chance>>8)%run)
		s.sample[i] = residual[at] + gradient[at]
	}
	least, _ := s.kth(s.sample, s.rank)
	return least
}

// magnitude orders elements by their size.
func magnitude(x float32) uint32 { return math.Float32bits(x) &^ (1 << 31) }

// kth returns the k-th largest magnitude of x, and how many of the k largest have it, 1 <= k <= len(x). It counts the elements by the bits of their
// magnitudes: by the first 11 bits, then by the 10 that follow, then by the last 10.
func (s *Selector) kth(x []float32, k int) (least uint32, equal int) {
	counts := s.counts[:]
	clear(counts)
	for _, v := range x {
		counts[magnitude(v)>>20&(1<<11-1)]++
	}
	first, k := nth(counts, k)
	counts = counts[:1<<10]
	clear(counts)
	for _, v := range x {
		if m := magnitude(v); m>>20 == first {
			counts[m>>10&(1<<10-1)]++
		}
	}
	second, k := nth(counts, k)
	second |= first << 10
	clear(counts)
	for _, v := range x {
		if m := magnitude(v); m>>10 == second {
			counts[m&(1<<10-1)]++
		}
	}
	third, k := nth(counts, k)
	return second<<10 | third, k
}

// nth returns the index of the k-th element from the end, and how many of the k are there.
func nth(counts []uint32, k int) (index uint32, left int) {
	for i := len(counts) - 1; i > 0; i-- {
		if int(counts[i]) >= k {
			return uint32(i), k
		}
		k -= int(counts[i])
	}
	return 0, k
}
