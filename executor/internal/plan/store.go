package plan

import "github.com/edl-go/edl/tensor"

// A Store is the memory of the temporaries of several plans. Plans that share one run one at a time: nothing that a plan keeps from run to run lies in
// it. It grows to what the largest plan needs, so compiling a plan for every batch of sequences allocates no arena. It is not safe for
// concurrent use.
type Store struct {
	memory map[tensor.DType]*tensor.Tensor
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{memory: map[tensor.DType]*tensor.Tensor{}} }

// Bytes is what the store holds. Plans that were compiled before it has grown may keep smaller memory alive.
func (s *Store) Bytes() (n int64) {
	for _, t := range s.memory {
		n += t.Bytes()
	}
	return n
}

// of returns a vector of at least n elements, whose values mean nothing.
func (s *Store) of(dtype tensor.DType, n int) (*tensor.Tensor, error) {
	have := s.memory[dtype]
	if have != nil && have.Len() >= n {
		return have, nil
	}
	if have != nil {
		n = max(n, have.Len()+have.Len()/4) // so that slowly growing batches seldom move it
	}
	made, err := tensor.New(dtype, int64(n))
	if err == nil {
		s.memory[dtype] = made
	}
	return made, err
}

// holds reports whether arenas need no more than there is.
func (s *Store) holds(arenas map[tensor.DType]*arena) bool {
	for dtype, a := range arenas {
		if have := s.memory[dtype]; have == nil || have.Len() < a.size {
			return false
		}
	}
	return true
}
