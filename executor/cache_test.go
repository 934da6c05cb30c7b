package executor

import (
	"fmt"
	"testing"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestCacheKeepsThePlansThatWereUsedLast(t *testing.T) {
	var c planCache
	key := func(i int) planKey { return planKey{request: fmt.Sprint(i)} }
	plans := make([]*plan.Plan, cachedPlans+2)
	for i := range plans {
		plans[i] = &plan.Plan{}
		c.put(key(i), plans[i])
		if c.get(key(0)) != plans[0] {
			t.Fatalf("the plan that is used all the time is gone after %d others", i)
		}
	}
	if len(c.entries) != cachedPlans {
		t.Errorf("%d plans", len(c.entries))
	}
	if c.get(key(1)) != nil || c.get(key(2)) != nil {
		t.Error("the plans that were not used are still there")
	}
	if last := len(plans) - 1; c.get(key(last)) != plans[last] {
		t.Error("the last plan is gone")
	}
}

// A request may have so many plans for feeds of other sizes; then one of them is taken for another size. Plans of other requests stay.
func TestAPlanIsTakenForAnotherSize(t *testing.T) {
	var c planCache
	key := func(fetched string, i int) planKey { return planKey{request: fmt.Sprint(fetched, i), fetched: fetched} }
	var plans []*plan.Plan
	for i := range 3 {
		plans = append(plans, &plan.Plan{})
		c.put(key("a", i), plans[i])
		c.put(key("b", i), &plan.Plan{})
	}
	if c.take(key("a", 3), 4) != nil {
		t.Error("took one of 3 plans, of which there may be 4")
	}
	c.get(key("a", 2))
	if c.take(key("a", 3), 3) != plans[1] || c.get(key("a", 1)) != nil {
		t.Error("took another plan than the last one whose size has not come again, or left it")
	}
	c.put(key("a", 3), plans[1])
	for i := range 4 {
		c.get(key("a", i))
	}
	if c.take(key("a", 4), 3) != plans[0] || c.get(key("a", 0)) != nil {
		t.Error("took another plan than the oldest, where all sizes have come again, or left it")
	}
	if len(c.entries) != 5 {
		t.Errorf("%d plans are left of 6", len(c.entries))
	}
}

// TestSizesThatComeAgainKeepTheirPlans mixes sizes that come again and again with ever new ones, and then replaces the former by others.
func TestSizesThatComeAgainKeepTheirPlans(t *testing.T) {
	for sizes := 1; sizes < mostSizes; sizes++ {
		var c planCache
		found := func(size int) bool {
			key := planKey{request: fmt.Sprint(size)}
			if c.get(key) != nil {
				return true
			}
			taken := c.take(key, mostSizes)
			if taken == nil {
				taken = &plan.Plan{}
			}
			c.put(key, taken)
			return false
		}
		for _, first := range []int{0, 100} {
			misses := 0
			for i := range 400 {
				for size := range sizes {
					if !found(first+size) && i >= 300 {
						misses++
					}
				}
				found(1000*(first+1) + i)
			}
			if misses > 0 {
				t.Errorf("%d sizes that have come 300 times had no plan %d times of %d", sizes, misses, 100*sizes)
			}
		}
		if len(c.entries) != mostSizes {
			t.Errorf("%d plans", len(c.entries))
		}
	}
}

func TestVersionsSeeWhatAPlanDependsOn(t *testing.T) {
	build := func() (*program.Program, *program.Op) {
		p := program.New()
		p.Global().EnsureVar(program.Var{Name: "x", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 2}})
		op := p.Global().Append(&program.Op{Type: "scale", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"x"}},
			Attrs: map[string]program.Attr{"scale": float32(2), "bias": float32(1), "names": []string{"a", "b"}}})
		return p, op
	}
	same, op := build()
	op.SetLine("here.go:1")
	var ofLines versions
	first := ofLines.of(same)
	if op.SetLine("elsewhere.go:1"); ofLines.of(same) != first {
		t.Error("the line of user code counts")
	}
	for name, change := range map[string]func(p *program.Program, op *program.Op){
		"an attribute":        func(_ *program.Program, op *program.Op) { op.SetAttr("scale", float32(3)) },
		"a type of attribute": func(_ *program.Program, op *program.Op) { op.SetAttr("scale", float64(2)) },
		"a list":              func(_ *program.Program, op *program.Op) { op.SetAttr("names", []string{"a b"}) },
		"attributes swapped": func(_ *program.Program, op *program.Op) {
			op.SetAttr("scale", float32(1))
			op.SetAttr("bias", float32(2))
		},
		"an element of a list": func(_ *program.Program, op *program.Op) { op.Attrs["names"].([]string)[1] = "c" },
		"a name":               func(_ *program.Program, op *program.Op) { op.Inputs["X"][0] = "y" },
		"no attribute":         func(_ *program.Program, op *program.Op) { delete(op.Attrs, "bias") },
		"an argument":          func(_ *program.Program, op *program.Op) { op.Inputs["X"] = []string{"y"} },
		"a type":               func(_ *program.Program, op *program.Op) { op.Type = "tanh" },
		"an op":                func(p *program.Program, op *program.Op) { p.Global().Append(op.Clone()) },
		"a block":              func(p *program.Program, _ *program.Op) { p.NewBlock(p.Global()) },
		"a variable":           func(p *program.Program, _ *program.Op) { p.Global().EnsureVar(program.Var{Name: "z"}) },
		"dims": func(p *program.Program, _ *program.Op) {
			v, _ := p.Global().Var("x")
			v.Dims[0] = 2
		},
		"persistence": func(p *program.Program, _ *program.Op) {
			v, _ := p.Global().Var("x")
			v.Persistable = true
		},
	} {
		changed, op := build()
		var known versions
		before := known.of(changed)
		if known.of(changed) != before || len(known.known) != 1 {
			t.Error("a program that has not changed has another version")
		}
		change(changed, op)
		if known.of(changed) == before {
			t.Errorf("%s gives no other version", name)
		}
	}
}
