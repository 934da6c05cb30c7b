package executor

import (
	"maps"
	"slices"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Scope holds the variables that live from step to step, by name. A name that it does not hold is looked up in its parent.
//
// A Scope is safe for concurrent use; the tensors in it are not: a reader during a step sees a mixture of old and new elements. A
// variable keeps its memory for as long as the Scope lives, because compiled plans refer to it.
type Scope struct {
	parent *Scope
	mu     sync.RWMutex
	vars   map[string]*scopeVar
}

type scopeVar struct {
	value *tensor.Tensor
	ready bool // has been set, loaded, or written by a run that ended well
}

// NewScope returns an empty scope without parent.
func NewScope() *Scope { return &Scope{vars: map[string]*scopeVar{}} }

// NewChild returns an empty scope whose names are also looked up in s.
func (s *Scope) NewChild() *Scope { return &Scope{parent: s, vars: map[string]*scopeVar{}} }

// Find returns the variable that name means in this scope, or false when it has no value yet.
func (s *Scope) Find(name string) (*tensor.Tensor, bool) {
	if v, ok := s.lookup(name); ok && v.ready {
		return v.value, true
	}
	return nil, false
}

func (s *Scope) lookup(name string) (v scopeVar, ok bool) {
	for ; s != nil; s = s.parent {
		s.mu.RLock()
		found := s.vars[name]
		if found != nil {
			v = *found
		}
		s.mu.RUnlock()
		if found != nil {
			return v, true
		}
	}
	return scopeVar{}, false
}

// Var returns the memory of a variable. When there is none, here or in a parent, it is allocated here; it has no value
// before MarkReady. Memory of another dtype or other dims is an error.
func (s *Scope) Var(name string, dtype tensor.DType, dims []int64) (*tensor.Tensor, error) {
	if s.parent != nil {
		if v, ok := s.parent.lookup(name); ok && !s.holds(name) {
			return v.value, checkVar(name, v.value, dtype, dims)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.vars[name]; v != nil {
		return v.value, checkVar(name, v.value, dtype, dims)
	}
	if slices.Contains(dims, program.Unknown) {
		return nil, fault.E(fault.ShapeMismatch, fault.Var(name), fault.Gotf("dims %v", dims),
			fault.Want("known dims of a variable that lives from step to step"))
	}
	t, err := tensor.New(dtype, dims...)
	if err != nil {
		return nil, fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
	}
	s.vars[name] = &scopeVar{value: t}
	return t, nil
}

func (s *Scope) holds(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.vars[name] != nil
}

func checkVar(name string, have *tensor.Tensor, dtype tensor.DType, dims []int64) error {
	switch {
	case have.DType() != dtype:
		return fault.E(fault.TypeMismatch, fault.Var(name), fault.Got(have.String()+" in the scope"), fault.Wantf("%v%v", dtype, dims))
	case !slices.Equal(have.Dims(), dims):
		return fault.E(fault.ShapeMismatch, fault.Var(name), fault.Got(have.String()+" in the scope"), fault.Wantf("%v%v", dtype, dims))
	}
	return nil
}

// MarkReady records that variables of this scope or its parents have values now.
func (s *Scope) MarkReady(names ...string) {
	for ; s != nil; s = s.parent {
		s.mu.Lock()
		for _, name := range names {
			if v := s.vars[name]; v != nil {
				v.ready = true
			}
		}
		s.mu.Unlock()
	}
}

// Set gives a variable of this scope a value. A new variable takes t itself; the elements of one that exists are overwritten,
// and dtype and dims must be the same.
func (s *Scope) Set(name string, t *tensor.Tensor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set(name, t)
}

// setMissing is Set for a variable that has no value here or in a parent. It leaves one that has: another executor may have given it meanwhile, and read it.
func (s *Scope) setMissing(name string, t *tensor.Tensor) error {
	if s.parent != nil {
		if _, ok := s.parent.Find(name); ok && !s.holds(name) {
			return nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.vars[name]; v != nil && v.ready {
		return nil
	}
	return s.set(name, t)
}

// set is Set for a caller that holds the lock.
func (s *Scope) set(name string, t *tensor.Tensor) error {
	v := s.vars[name]
	if v == nil {
		s.vars[name] = &scopeVar{value: t, ready: true}
		return nil
	}
	if err := checkVar(name, v.value, t.DType(), t.Dims()); err != nil {
		return err
	}
	v.ready = true
	return v.value.CopyFrom(t)
}

// setAll is Set for several variables: all of them or, when one does not fit, none.
func (s *Scope) setAll(values []namedTensor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		if have := s.vars[v.name]; have != nil {
			if err := checkVar(v.name, have.value, v.value.DType(), v.value.Dims()); err != nil {
				return err
			}
		}
	}
	for _, v := range values {
		have := s.vars[v.name]
		if have == nil {
			s.vars[v.name] = &scopeVar{value: v.value, ready: true}
			continue
		}
		if err := have.value.CopyFrom(v.value); err != nil {
			return err // cannot be: dtype and dims are the same
		}
		have.ready = true
	}
	return nil
}

// Names returns the names of the variables of this scope itself that have values, sorted.
func (s *Scope) Names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := slices.Sorted(maps.Keys(s.vars))
	return slices.DeleteFunc(names, func(name string) bool { return !s.vars[name].ready })
}
