package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/examples/internal/exampletest"
	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/program"
)

// prepare does what the commands above main do: it infers a schema of a table, converts it, and writes the programs. It returns their folder.
func prepare(t *testing.T, table, label string) (out string) {
	t.Helper()
	out = t.TempDir()
	open := func() []*schema.Table {
		f, err := os.Open(table)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		opened, err := schema.Open(f, info.Size())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { opened.Close() })
		return []*schema.Table{opened}
	}
	s, err := schema.Infer(t.Context(), open(), schema.InferOptions{Label: label, Split: &schema.Split{Test: 0.2}})
	if err != nil {
		t.Fatal(err)
	}
	err = page.Dataset(out, "train", func(train dataset.RecordWriter) error {
		return page.Dataset(out, "test", func(test dataset.RecordWriter) error {
			return schema.Convert(t.Context(), s, open(), runtime.GOMAXPROCS(0), train.Write, test.Write)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := s.Write(&text); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(out, "schema.yaml")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(out, file); err != nil {
		t.Fatal(err)
	}
	return out
}

// evaluate runs a program, with the parameters in out/model, on the rows that were held back.
func evaluate(t *testing.T, p *program.Program, out string, fetch []string, step func(executor.StepResult) error) {
	t.Helper()
	local := executor.New()
	defer local.Close()
	options := executor.TrainOptions{Data: map[string][]string{"train": {filepath.Join(out, "test-*")}}, Params: filepath.Join(out, "model"), Fetch: fetch}
	if _, err := local.Train(t.Context(), p, options, step); err != nil {
		t.Fatal(err)
	}
}

// visits is a table of visits to a shop: who spends long on the page, and comes from the south, buys.
func visits(t *testing.T) string {
	chance := rand.New(rand.NewPCG(1, 2))
	var table strings.Builder
	table.WriteString("seconds,place,buys\n")
	for range 800 {
		seconds, place := chance.Float64()*300, []string{"north", "south", "east"}[chance.IntN(3)]
		fmt.Fprintf(&table, "%.1f,%s,%v\n", seconds, place, seconds > 200 || place == "south" && seconds > 60)
	}
	path := filepath.Join(t.TempDir(), "visits.csv")
	if err := os.WriteFile(path, []byte(table.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVisits(t *testing.T) {
	out := prepare(t, visits(t), "buys")
	local := executor.New()
	defer local.Close()
	exampletest.Train(t, local, out, 40, "loss")
	var losses []float64
	evaluate(t, exampletest.Load(t, out, "test.pb"), out, []string{"loss"}, func(s executor.StepResult) error {
		losses = append(losses, executor.Scalar(s.Fetched[0]))
		return nil
	})
	if loss := exampletest.Mean(losses); loss > 0.2 {
		t.Errorf("the loss on visits that were held back is %v", loss)
	}
}

func TestLaw(t *testing.T) { exampletest.Obeys(t, prepare(t, visits(t), "buys"), "loss") }

// Who earns more than 50,000 dollars, from the census of 1994. A logistic regression of the same columns reaches 0.90.
func TestAdult(t *testing.T) {
	root := os.Getenv("EDL_TESTDATA")
	if root == "" {
		t.Skip("EDL_TESTDATA is not set: no census")
	}
	out := prepare(t, filepath.Join(root, "adult", "adult.data"), "income")
	local := executor.New()
	defer local.Close()
	exampletest.Train(t, local, out, 2, "loss")
	test := exampletest.Load(t, out, "test.pb")
	spec, err := metrics.Spec{Kind: "auc"}.Fill(test)
	if err != nil {
		t.Fatal(err)
	}
	set, err := metrics.Of(spec)
	if err != nil {
		t.Fatal(err)
	}
	evaluate(t, test, out, set.Names(), func(s executor.StepResult) error { return set.Add(s.Fetched) })
	results, err := set.Results()
	if err != nil || results[0].Value < 0.9 {
		t.Errorf("the AUC of people who were held back is %v, %v", results, err)
	}
}
