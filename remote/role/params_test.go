package role

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// savedState trains a model for a step and saves it. It returns the directory and the values.
func savedState(t *testing.T, m testkit.Model) (string, map[string]*tensor.Tensor) {
	t.Helper()
	dir, local := t.TempDir(), executor.New()
	defer local.Close()
	if err := errors.Join(local.Startup(t.Context(), m.Program), executor.SavePersistables(local.Scope(), dir, m.Program)); err != nil {
		t.Fatal(err)
	}
	return dir, testkit.Saved(t, dir, m.Program)
}

// pieces are the values of a pserver that it has from a state, by slice.
func pieces(t *testing.T, s startState, p *program.Program) (map[string]*tensor.Tensor, error) {
	t.Helper()
	scope := executor.NewScope()
	err := s.loadPieces(scope, p)
	have := map[string]*tensor.Tensor{}
	service, wrong := serviceOf(p)
	if wrong != nil {
		t.Fatal(wrong)
	}
	for _, slice := range service.Slices {
		if value, ok := scope.Find(slice.Name); ok {
			have[slice.Name] = value
		}
	}
	return have, err
}

// Of a distributed table a pserver takes the rows of its slice in the order of stripes.
func TestTableToStartWith(t *testing.T) {
	m := layers.NewModel()
	ids := layers.Data(m, "ids", layers.Dims(1), layers.DType(tensor.Int64))
	loss := layers.Mean(layers.Embedding(ids, 300, 4, layers.Sparse(), layers.Distributed(), layers.Param(layers.ParamAttr{Name: "table"})))
	optimizer.Momentum(0.05, 0.9).Minimize(loss)
	model := testkit.Built(t, m, loss)
	dir, values := savedState(t, model)
	roles, err := transpiler.Transpile(t.Context(), model.Program, transpiler.Config{Trainers: 1, PServers: 3, MinBlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	r, stripes, rows := &runner{spec: &job.RoleSpec{StateDir: dir, Spec: &job.JobSpec{}}}, kernel.StripesOf(300), int64(0)
	for _, p := range roles.PServers {
		have, err := pieces(t, r.start(), p)
		if err != nil {
			t.Fatal(err)
		}
		service, _ := serviceOf(p)
		for _, slice := range service.Slices {
			if !slice.Striped {
				continue
			}
			for i := range slice.Rows {
				row := stripes.Row(slice.FirstRow + i)
				if got, want := have[slice.Name].Float32s()[4*i:][:4], values[slice.Origin].Float32s()[4*row:][:4]; !slices.Equal(got, want) {
					t.Fatalf("row %d of %s is %v, want %v", i, slice.Name, got, want)
				}
			}
			rows += slice.Rows
		}
	}
	if rows != 2*300 { // and the velocity
		t.Errorf("pservers have %d rows in stripes", rows)
	}
}

// A pserver takes its rows of every variable from the state that the listener holds, before the parameters of the spec. Where the spec says so, it
// leaves out what the state does not have or has with other dims, on every server, and the startup program makes those.
func TestStateToStartWith(t *testing.T) {
	m := testkit.Reading(t, 5, optimizer.Momentum(0.05, 0.9))
	dir, values := savedState(t, m)
	roles, err := transpiler.Transpile(t.Context(), m.Program, transpiler.Config{Trainers: 1, PServers: 2, MinBlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{spec: &job.RoleSpec{StateDir: dir, Spec: &job.JobSpec{Params: filepath.Join(dir, "nowhere")}}}
	for _, p := range roles.PServers {
		have, err := pieces(t, r.start(), p)
		if err != nil {
			t.Fatal(err)
		}
		service, _ := serviceOf(p)
		for _, slice := range service.Slices {
			want, err := values[slice.Origin].Rows(slice.FirstRow, slice.FirstRow+slice.Rows)
			if err != nil || have[slice.Name] == nil || !slices.Equal(have[slice.Name].Float32s(), want.Float32s()) {
				t.Errorf("%s is %v, want %v, %v", slice.Name, have[slice.Name], want, err)
			}
		}
	}

	const missing, changed = "fc_0.b_0", "fc_1.w_0"
	other, err := tensor.New(tensor.Float32, 10, 7) // a new head
	if err != nil {
		t.Fatal(err)
	}
	files, err := executor.NewStorage(dir)
	if err == nil {
		err = errors.Join(os.Remove(filepath.Join(dir, missing)), files.Save(changed, []*tensor.Tensor{other}, true), files.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, p := range roles.PServers {
		service, _ := serviceOf(p)
		r.spec.Spec.Partial = false
		if _, err := pieces(t, r.start(), p); err != nil {
			refused++
		}
		r.spec.Spec.Partial = true
		have, err := pieces(t, r.start(), p)
		if err != nil {
			t.Error(err)
		}
		for _, slice := range service.Slices {
			if got, want := have[slice.Name] != nil, slice.Origin != missing && slice.Origin != changed; got != want {
				t.Errorf("%s of %s was loaded: %v", slice.Name, slice.Origin, got)
			}
		}
	}
	if refused == 0 {
		t.Error("no pserver refuses a state that lacks variables")
	}
	if err := os.WriteFile(filepath.Join(dir, "fc_0.w_0"), []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for _, p := range roles.PServers {
		if _, err := pieces(t, r.start(), p); err != nil && !errors.Is(err, fault.ShapeMismatch) {
			damaged++
		}
	}
	if damaged == 0 {
		t.Error("a damaged file is taken for one of other dims")
	}
}

// A trainer takes the variables that no server holds from the state, and those alone.
func TestConstantsToStartWith(t *testing.T) {
	m := testkit.Reading(t, 5, optimizer.SGD(0.05))
	dir, _ := savedState(t, m)
	roles, err := transpiler.Transpile(t.Context(), m.Program, transpiler.Config{Trainers: 1, PServers: 1, MinBlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	if load := (startState{}).constants(roles.Trainer); load != nil {
		t.Error("constants without a state")
	}
	scope := executor.NewScope()
	if err := (startState{dir: dir}).constants(roles.Trainer)(scope); err != nil {
		t.Error(err)
	}
	if value, ok := scope.Find("fc_0.w_0"); ok {
		t.Errorf("a trainer has loaded %v, which a server holds", value)
	}
}

// A directory that an interrupted Save has left is not loaded by any role.
func TestAnIncompleteStateIsRefused(t *testing.T) {
	m := testkit.Reading(t, 5, optimizer.SGD(0.05))
	dir, _ := savedState(t, m)
	if err := os.WriteFile(filepath.Join(dir, executor.IncompleteFolder), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]startState{"a state": {dir: dir}, "a part of it": {dir: dir, partial: true}} {
		if err := s.constants(m.Program)(executor.NewScope()); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
