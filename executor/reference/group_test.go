package reference_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// train runs five rounds, of different numbers of rows, and returns the parameters.
func train(t *testing.T, s subject, trainers int, groups ...[]int) map[string][]float64 {
	t.Helper()
	e := open(t, s.model.Program, trainers)
	if len(groups) > 0 {
		e.Group(func(uint64) [][]int { return groups })
	}
	for step, rows := range []int64{7, 9, 3, 8, 2} {
		if _, err := e.Run(t.Context(), s.model.Program, s.batch(uint64(step), rows), s.model.Loss); err != nil {
			t.Fatal(err)
		}
	}
	return values(e.Scope())
}

// One group of all, and groups of one each, merge in one step: they give the bits of no groups. Two groups of two give others, which are close.
func TestGroups(t *testing.T) {
	for name, s := range subjects(t) {
		t.Run(name, func(t *testing.T) {
			flat := train(t, s, 4)
			for _, groups := range [][][]int{{{0, 1, 2, 3}}, {{0}, {1}, {2}, {3}}, {{2}}} {
				if got := train(t, s, 4, groups...); !maps.EqualFunc(got, flat, slices.Equal) {
					t.Errorf("groups %v give other bits than none", groups)
				}
			}
			two, mixed := train(t, s, 4, []int{0, 1}, []int{2, 3}), train(t, s, 4, []int{0, 2}, []int{1, 3})
			if maps.EqualFunc(two, flat, slices.Equal) || maps.EqualFunc(two, mixed, slices.Equal) {
				t.Error("groups do not change the order of sums")
			}
			if got := train(t, s, 4, []int{0, 2}); maps.EqualFunc(got, mixed, slices.Equal) {
				t.Error("trainers in no group are merged as a group")
			}
		})
	}
}

// The gradient that the update reads is the merge of the merges of groups, each with the weight of its rows.
func TestGroupsMergeByRows(t *testing.T) {
	s := subjects(t)["sgd"]
	weights := "fc_0.w_0"
	const rows = 7 // 1, 2, 2, 2
	e := open(t, s.model.Program, 4)
	e.Group(func(uint64) [][]int { return [][]int{{0, 1}, {2, 3}} })
	feed := s.batch(0, rows)
	got, err := e.Run(t.Context(), s.model.Program, feed, weights)
	if err != nil {
		t.Fatal(err)
	}
	var shares []merge.Share
	for rank := range int64(4) {
		from, to := rows*rank/4, rows*(rank+1)/4
		part := executor.Feed{}
		for name, x := range feed {
			part[name], _ = x.Rows(from, to)
		}
		one := open(t, s.model.Program, 1)
		g, err := one.Run(t.Context(), s.model.Program, part, program.GradName(weights))
		if err != nil {
			t.Fatal(err)
		}
		shares = append(shares, merge.Share{Value: g[0], Rows: to - from})
	}
	merged := func(list ...merge.Share) merge.Share {
		out := merge.Share{Value: list[0].Value.Clone()}
		for _, s := range list {
			out.Rows += s.Rows
		}
		if err := merge.Gradients(out.Value, list, ops.MergeMean); err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := initial(t, s.model.Program, weights)
	g := merged(merged(shares[0], shares[1]), merged(shares[2], shares[3])).Value.Float32s()
	for i, x := range want.Float32s() {
		if want.Float32s()[i] = x - 0.1*g[i]; want.Float32s()[i] != got[0].Float32s()[i] {
			t.Fatalf("%s[%d] = %v, want %v", weights, i, got[0].Float32s()[i], want.Float32s()[i])
		}
	}
}

// initial returns a parameter before the first round.
func initial(t *testing.T, p *program.Program, name string) *tensor.Tensor {
	t.Helper()
	e := executor.New()
	defer e.Close()
	if err := e.Startup(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	v, _ := e.Scope().Find(name)
	return v.Clone()
}
