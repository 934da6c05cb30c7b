package transpiler_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

// A parameter, its gradient and its accumulators are cut into the same rows, on the same server, and every row is updated once.
func TestSlicesAgree(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cfg := transpiler.Config{
			Trainers: 1, PServers: rapid.IntRange(1, 9).Draw(r, "pservers"), MinBlockSize: rapid.Int64Range(1, 60).Draw(r, "min block"),
			SplitMethod: rapid.SampledFrom([]string{transpiler.RoundRobin, transpiler.HashName}).Draw(r, "method"),
		}
		rows, width := rapid.Int64Range(1, 30).Draw(r, "rows"), rapid.Int64Range(1, 9).Draw(r, "width")
		p := fitLine(t, rows, width, optimizer.Adam(0.1))
		result := transpile(t, p, cfg)
		updates := updatesOf(result, "adam")
		if len(updates) != len(result.Placement.Slices) {
			r.Fatalf("%d updates of %d slices", len(updates), len(result.Placement.Slices))
		}
		covered := map[string]int64{}
		for _, s := range result.Placement.Slices {
			u, ok := updates[s.Name]
			if !ok || u.server != s.Server || s.FirstRow != covered[s.Param] || u.op.In("Grad") != s.GradName {
				r.Fatalf("the update %+v does not fit %+v behind row %d", u, s, covered[s.Param])
			}
			covered[s.Param] += s.Rows
			param, _ := u.block.Find(s.Name)
			for _, slot := range []string{"Param", "Grad", "Moment1", "Moment2"} {
				if v, _ := u.block.Find(u.op.In(slot)); v.Dims[0] != s.Rows || !slices.Equal(v.Dims, param.Dims) {
					r.Fatalf("%s %s%v beside a slice of %d rows", slot, v.Name, v.Dims, s.Rows)
				}
			}
		}
		if covered["fc_0.w_0"] != rows || covered["fc_0.b_0"] != width {
			r.Fatalf("rows that are updated: %v", covered)
		}
	})
}

// An update is an op that updates a slice, by the name of the slice.
type update struct {
	server int
	block  *program.Block
	op     *program.Op
}

// updatesOf returns the ops of a type on all servers by the variable that they update. A variable that is updated twice counts as another.
func updatesOf(r *transpiler.Result, opType string) map[string]update {
	updates := map[string]update{}
	for i, p := range r.PServers {
		for _, b := range p.Blocks {
			for _, op := range b.Ops {
				if op.Type != opType {
					continue
				}
				name := op.In("Param")
				if _, ok := updates[name]; ok {
					name += ", again"
				}
				updates[name] = update{i, b, op}
			}
		}
	}
	return updates
}

// Several slices of one parameter on one server are updated each by itself, with accumulators of their own.
func TestSlicesThatMeetOnOneServer(t *testing.T) {
	cfg := transpiler.Config{Trainers: 1, PServers: 6, MinBlockSize: 2, SplitMethod: transpiler.HashName}
	r := transpile(t, fitLine(t, 12, 1, optimizer.Adam(0.1)), cfg)
	meet := map[int]int{}
	for _, s := range r.Placement.Of("fc_0.w_0") {
		meet[s.Server]++
	}
	if len(meet) == 6 {
		t.Fatal("no two slices meet; the test needs another name")
	}
	serverVars := map[string]bool{}
	for i, p := range r.PServers {
		service, err := comm.ServiceOf(p.Global().Ops[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range service.Slices {
			if serverVars[s.Name] && s.Origin != "learning_rate_0" {
				t.Errorf("pserver %d: a second variable %s", i, s.Name)
			}
			serverVars[s.Name] = true
		}
	}
	if updates := updatesOf(r, "adam"); len(updates) != 7 {
		t.Errorf("%d updates, want those of 6 slices and of the bias", len(updates))
	}
	for _, name := range []string{"fc_0.w_0_beta1_pow_acc_0.block5", "fc_0.w_0_moment1_0.block0"} {
		if !serverVars[name] {
			t.Errorf("no server holds %s", name)
		}
	}
}

// Names that look like those of slices belong to the user.
func TestNamesThatLookLikeSlices(t *testing.T) {
	m := layers.NewModel()
	h := layers.Data(m, "x", layers.Dims(4))
	for _, name := range []string{"w", "w.block0", "w@GRAD.block1", "emb", "embedding", "a:b"} {
		h = layers.FC(h, 4, layers.NoBias(), layers.Param(layers.ParamAttr{Name: name}))
	}
	y := layers.Data(m, "__control_var@0", layers.Dims(4))
	optimizer.Momentum(0.1, 0.9).Minimize(layers.Mean(layers.SquareErrorCost(h, y)))
	p := built(t, m)
	cfg := transpiler.Config{Trainers: 2, PServers: 2, MinBlockSize: 4}
	r := transpile(t, p, cfg)
	var names []string
	for _, s := range r.Placement.Of("w") {
		names = append(names, s.Name, s.GradName)
	}
	if want := []string{"w.block0_1", "w@GRAD.block0", "w.block1", "w@GRAD.block1_1"}; !slices.Equal(names, want) {
		t.Errorf("slices of w: %q, want %q", names, want)
	}
	for _, name := range []string{"emb", "embedding", "a:b", "w.block0"} {
		if got := r.Placement.Of(name); len(got) != 2 || got[0].Grad != name+"@GRAD" {
			t.Errorf("slices of %s: %+v", name, got)
		}
	}
	if err := checkLaw(t, p, cfg); err != nil {
		t.Error(err)
	}
}
