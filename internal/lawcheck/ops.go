package lawcheck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/transpiler"
)

// Law trains a model through the op of each case on clusters of one and of three trainers, and compares with the reference executor. Where an op keeps rows apart, trainers divide what it gets; where it mixes
// them, each trainer computes it from parameters. Law fails if an op of the family (ops.Def.Family) that computes, or its gradient, was in none of these models, unless exempt has the reason why it cannot be.
func Law(t *testing.T, family string, cases []gradcheck.Case, exempt map[string]string) {
	t.Helper()
	trained, failed := map[string]bool{}, map[string]error{}
	for _, c := range cases {
		t.Run(c.String(), func(t *testing.T) {
			types, err := check(t.Context(), c)
			var refused *refusal
			switch {
			case errors.As(err, &refused):
				failed[c.Type] = refused
			case err != nil:
				t.Error(err)
			}
			for _, opType := range types {
				trained[opType] = true
			}
		})
	}
	for _, def := range ops.All() {
		computes := def.Family() == family && (def.Class == ops.Compute || def.Class == ops.Backward || def.Class == ops.Random)
		_, listed := exempt[def.Type]
		switch {
		case computes && !trained[def.Type] && !listed:
			t.Errorf("no case trains %s on a cluster, and no reason says why: %v", def.Type, failed[def.Type])
		case listed && trained[def.Type]:
			t.Errorf("%s has a reason to be trained on no cluster, and is", def.Type)
		}
	}
	for _, opType := range slices.Sorted(maps.Keys(exempt)) {
		if _, ok := ops.Lookup(opType); !ok || exempt[opType] == "" {
			t.Errorf("%s is no op, or has no reason", opType)
		}
	}
}

// A refusal says that a case makes no model that a cluster trains.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }

// check trains the model of a case. It returns the ops of the program.
func check(ctx context.Context, c gradcheck.Case) (types []string, err error) {
	if def, ok := ops.Lookup(c.Type); ok && def.Class == ops.Backward {
		return nil, &refusal{errors.New("a gradient, which is trained through its forward op")}
	}
	b, err := gradcheck.BatchOf(c)
	if err != nil {
		return nil, &refusal{err}
	}
	p, feed, rows, err := modelOf(b)
	if err != nil {
		return nil, &refusal{err}
	}
	for _, op := range p.Global().Ops {
		types = append(types, op.Type)
	}
	for _, trainers := range []int{1, 3} {
		cfg := transpiler.Config{Trainers: trainers, PServers: 2, MinBlockSize: 1}
		if _, err := transpiler.Transpile(ctx, p, cfg); err != nil {
			return nil, &refusal{err}
		}
		if err := Check(ctx, p, cfg, []executor.Feed{feed, feed}, rows); errors.Is(err, fault.NotFinite) {
			return nil, &refusal{err}
		} else if err != nil {
			return nil, fmt.Errorf("%d trainers, with rows in %v: %w", trainers, b.Slots, err)
		}
	}
	return types, nil
}
