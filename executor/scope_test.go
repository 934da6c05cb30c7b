package executor_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

func TestScopesFindNamesThroughTheirParents(t *testing.T) {
	parent := executor.NewScope()
	child := parent.NewChild()
	outer := fixture.Numbers(1, 2)
	if err := parent.Set("w", outer); err != nil {
		t.Fatal(err)
	}
	if got, ok := child.Find("w"); !ok || got != outer {
		t.Error("the child does not see its parent's variable")
	}
	if got, err := child.Var("w", tensor.Float32, []int64{2}); err != nil || got != outer {
		t.Errorf("Var made a second variable: %v", err)
	}
	if err := child.Set("w", fixture.Numbers(2, 3)); err != nil {
		t.Fatal(err)
	}
	if got, _ := child.Find("w"); got == outer {
		t.Error("the child's own variable does not hide its parent's")
	}
	if !slices.Equal(parent.Names(), []string{"w"}) || len(parent.NewChild().Names()) != 0 {
		t.Error("Names lists more than the scope's own variables")
	}
}

func TestVariablesHaveValuesFromTheirFirstWriteOn(t *testing.T) {
	s := executor.NewScope()
	v, err := s.Var("v", tensor.Float32, []int64{2})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Find("v"); ok || len(s.Names()) != 0 {
		t.Error("found before it was written")
	}
	s.MarkReady("v")
	if got, ok := s.Find("v"); !ok || got != v {
		t.Error("not found after it was written")
	}
}

func TestVariablesKeepMemoryAndShape(t *testing.T) {
	s := executor.NewScope()
	first := fixture.Numbers(1, 2)
	second := fixture.Numbers(2, 2)
	if err := errors.Join(s.Set("v", first), s.Set("v", second)); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Find("v"); got != first || !slices.Equal(got.Float32s(), second.Float32s()) {
		t.Error("Set moved the variable")
	}
	if err := s.Set("v", fixture.Numbers(1, 3)); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("other dims: %v", err)
	}
	if _, err := s.Var("v", tensor.Int64, []int64{2}); !errors.Is(err, fault.TypeMismatch) {
		t.Errorf("another type: %v", err)
	}
	if _, err := s.Var("open", tensor.Int64, []int64{-1}); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("open dims: %v", err)
	}
}

func TestScopesServeManyAtATime(t *testing.T) {
	parent := executor.NewScope()
	child := parent.NewChild()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 50 {
				name := fmt.Sprint(k)
				if _, err := child.Var(name, tensor.Float32, []int64{1}); err != nil {
					t.Errorf("goroutine %d: %v", i, err)
				}
				child.MarkReady(name)
				if _, ok := child.Find(name); !ok {
					t.Errorf("goroutine %d does not find %s", i, name)
				}
				child.Names()
			}
		})
	}
	all.Wait()
	if len(child.Names()) != 50 {
		t.Errorf("%d variables", len(child.Names()))
	}
}
