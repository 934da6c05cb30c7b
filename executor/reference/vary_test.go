package reference_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/optimizer"
)

// A number of trainers that changes between rounds gives in each round what a constant number of them gives there: with one trainer in some
// rounds and three in others, every round equals that of an executor of one or of three that begins it with the same variables.
func TestTrainersThatComeAndGo(t *testing.T) {
	members := []int{3, 1, 1, 3, 2}
	model := fixture.MLP(t, 20, []int64{8}, optimizer.Momentum(0.1, 0.9))
	m, fetch := model.Program, model.Loss
	varied := open(t, m, 1)
	varied.Vary(func(round uint64) int { return members[round] })
	for round, n := range members {
		alone := open(t, m, n)
		for _, name := range varied.Scope().Names() {
			v, _ := varied.Scope().Find(name)
			if err := alone.Scope().Set(name, v.Clone()); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range []*reference.Executor{varied, alone} {
			if _, err := e.Run(t.Context(), m, digits(uint64(round), 7), fetch); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := values(varied.Scope()), values(alone.Scope()); !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("round %d of %d trainers differs", round, n)
		}
	}
}
