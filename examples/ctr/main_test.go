package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/examples/internal/exampletest"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
)

// heldOut trains on exe and returns the AUC of the test set, which is one batch.
func heldOut(t *testing.T, exe executor.Executor, out string, passes int) float64 {
	t.Helper()
	exampletest.Train(t, exe, out, passes, "loss")
	areas := exampletest.Test(t, out, "auc")
	if len(areas) != 1 {
		t.Fatalf("%d batches of the test set, want 1", len(areas))
	}
	return areas[0]
}

func TestClicksThatWereMadeUp(t *testing.T) {
	out := t.TempDir()
	if err := write(out, files{tables: local}, 2003); err != nil {
		t.Fatal(err)
	}
	local := executor.New()
	defer local.Close()
	if auc := heldOut(t, local, out, 3); auc < 0.75 {
		t.Errorf("AUC is %g", auc)
	}
}

// people returns the flags of real data, by name.
func people(t *testing.T) map[string]files {
	root := os.Getenv("EDL_TESTDATA")
	if root == "" {
		t.Skip("EDL_TESTDATA is not set: no clicks of Criteo, no table of Adult")
	}
	return map[string]files{
		"criteo": {tables: distributed, criteo: filepath.Join(root, "criteo", "xdeepfm_train_tr"), criteoTest: filepath.Join(root, "criteo", "xdeepfm_test_ev"), binned: true},
		"adult":  {tables: growing, adult: filepath.Join(root, "adult", "adult.data")},
	}
}

// AUCs that the test sets must have.
var wanted = map[string]float64{"criteo": 0.74, "adult": 0.89}

func TestClicksOfPeople(t *testing.T) {
	for name, f := range people(t) {
		out := t.TempDir()
		if err := write(out, f, vocabulary); err != nil {
			t.Fatal(err)
		}
		local := executor.New()
		defer local.Close()
		if auc := heldOut(t, local, out, 3); auc < wanted[name] {
			t.Errorf("%s: AUC is %g, want at least %g", name, auc, wanted[name])
		}
	}
}

// A cluster of two trainers comes to the bits of the reference. The tables are smaller here, because each of them is saved and loaded.
func TestClustersPredictAsTheReference(t *testing.T) {
	for name, f := range people(t) {
		out := t.TempDir()
		if err := write(out, f, 50021); err != nil {
			t.Fatal(err)
		}
		oracle, err := reference.New(exampletest.Load(t, out, "program.pb"), 2)
		if err != nil {
			t.Fatal(err)
		}
		defer oracle.Close()
		want := heldOut(t, oracle, out, 3)
		if auc := heldOut(t, exampletest.Cluster(t), out, 3); auc != want || auc < wanted[name] {
			t.Errorf("%s: AUC is %g, want %g, that of the reference, and at least %g", name, auc, want, wanted[name])
		}
	}
}

func TestLaw(t *testing.T) {
	out := t.TempDir()
	if err := write(out, files{tables: growing}, 1009); err != nil {
		t.Fatal(err)
	}
	exampletest.Obeys(t, out, "loss")
}

func TestFlagsThatBelongTogether(t *testing.T) {
	for _, f := range []files{{tables: local, criteo: "train"}, {tables: local, criteoTest: "test"}, {tables: local, binned: true},
		{tables: local, adult: "adult", criteo: "train", criteoTest: "test"}, {tables: local, adult: "missing"}, {tables: "other"}} {
		if err := write(t.TempDir(), f, 1009); err == nil {
			t.Errorf("%+v: no error", f)
		}
	}
}
