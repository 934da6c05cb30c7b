package lawcheck

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/transpiler"
)

// Law trains a model through the op of each case on clusters of one and of three trainers, and compares with the reference executor. Where an op keeps rows apart, trainers divide what it gets; where it mixes
// them, each trainer computes it from parameters. Programs are trained in the same way. Law fails if an op of the family (ops.Def.Family) was in none of these models and role programs, and its definition does not
// say why (ops.Def.Exempt). Of a family without cases, which gradcheck.Laws would check, it draws hostile ops, too.
func Law(t *testing.T, family string, cases []gradcheck.Case, programs ...Program) {
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
	var seeds []gradcheck.Seed
	for _, p := range programs {
		t.Run(p.Name, func(t *testing.T) {
			all, err := p.check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range all {
				trained[s.Op.Type] = true
				if def, ok := ops.Lookup(s.Op.Type); ok && def.Family() == family && def.Class != ops.Control {
					seeds = append(seeds, s)
				}
			}
		})
	}
	for _, def := range ops.All() {
		if def.Family() != family {
			continue
		}
		gradcheck.Covered(t, def, ops.CheckLaw, trained[def.Type])
		if err := failed[def.Type]; err != nil && !trained[def.Type] && def.Exempt[ops.CheckLaw] == "" {
			t.Errorf("%s: %v", def.Type, err)
		}
		if def.Class != ops.Control { // whose gradients and hostile forms tests of package executor check, in whole programs
			if seeds = append(seeds, gradcheck.SeedOf(def)); len(cases) == 0 { // gradcheck.Laws checks gradients of cases
				gradcheck.Covered(t, def, ops.CheckGradient, def.Gradient == nil)
			}
		}
	}
	if len(cases) == 0 && len(seeds) > 0 {
		t.Run("hostile", func(t *testing.T) { gradcheck.Hostile(t, seeds) })
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
