package plan

import "github.com/edl-go/edl/tensor"

// A Store is the memory of the temporaries of several plans. Plans that share one run one at a time: nothing that a plan keeps from run to run lies in
// it. It grows to what the largest plan needs, so compiling a plan for every batch of sequences allocates no arena. It is not safe for
// concurrent use.
type Store struct {
	memory map[tensor.DType]*tensor.Tensor
	blank  map[tensor.DType]bool // memory that no plan has laid anything out in
	budget *tensor.Budget        // that it takes its memory from; nil for none
}

// NewStore returns an empty store.
func NewStore() *Store { return newStore(nil) }

func newStore(budget *tensor.Budget) *Store {
	return &Store{memory: map[tensor.DType]*tensor.Tensor{}, blank: map[tensor.DType]bool{}, budget: budget}
}

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
	size := int64(dtype.Size())
	if have != nil {
		if roomy := have.Len() + have.Len()/4; s.budget.Left()/size > int64(roomy) {
			n = max(n, roomy) // so that slowly growing batches seldom move it
		}
	}
	if err := s.budget.Take("", int64(n)*size-s.idle(dtype)); err != nil {
		return nil, err
	}
	made, err := tensor.New(dtype, int64(n))
	if err == nil {
		s.memory[dtype], s.blank[dtype] = made, true
	}
	return made, err
}

// layIn returns a vector of at least n elements that a plan goes on using.
func (s *Store) layIn(dtype tensor.DType, n int) (*tensor.Tensor, error) {
	memory, err := s.of(dtype, n)
	if err == nil {
		s.blank[dtype] = false
	}
	return memory, err
}

// idle returns the bytes of memory that is gone when it is replaced. What a plan lies in stays as long as the plan.
func (s *Store) idle(dtype tensor.DType) int64 {
	if s.memory[dtype] == nil || !s.blank[dtype] {
		return 0
	}
	return s.memory[dtype].Bytes()
}

// growth returns how many bytes the store would take for arenas.
func (s *Store) growth(arenas map[tensor.DType]*arena) (bytes int64) {
	for dtype, a := range arenas {
		if have := s.memory[dtype]; have == nil || have.Len() < a.size {
			bytes = add(bytes, int64(a.size)*int64(dtype.Size())-s.idle(dtype))
		}
	}
	return bytes
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
