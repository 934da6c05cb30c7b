package ops_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestDescribe checks the table against the registry: one line an op, in order, with everything that is promised.
func TestDescribe(t *testing.T) {
	var b bytes.Buffer
	if err := ops.Describe(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if want := "OP CLASS GRADIENT SUMMARY INPUTS OUTPUTS ATTRIBUTES"; strings.Join(strings.Fields(lines[0]), " ") != want {
		t.Errorf("the table is headed %q", lines[0])
	}
	all := ops.All()
	if len(lines) != len(all)+1 {
		t.Fatalf("%d lines for %d ops", len(lines), len(all))
	}
	for i, d := range all {
		line := lines[i+1]
		for _, part := range []string{d.Type + " ", " " + d.Class.String() + " ", d.Summary()} {
			if !strings.Contains(line, part) {
				t.Errorf("the line of %s lacks %q: %s", d.Type, part, line)
			}
		}
		for _, a := range d.Attrs {
			if !strings.Contains(line, " "+a.Name+"=") && !strings.Contains(line, " "+a.Name+"!") {
				t.Errorf("the line of %s lacks the attribute %s: %s", d.Type, a.Name, line)
			}
		}
	}
	for _, want := range []string{"Param Grad LearningRate MeanSquare Moment MeanGrad?", "epsilon=1e-06", "epmap! send_varnames=[]",
		`origin=""`, "X*?"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q", want)
		}
	}
}

func TestDescribeOp(t *testing.T) {
	for _, opType := range []string{"adam", "send", "uniform_random", "fetch"} {
		var b bytes.Buffer
		if err := ops.DescribeOp(&b, opType); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", "describe_"+opType+".golden")
		if *update {
			if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%s is described as\n%s\nwant as in %s; run the test with -update if the change is meant", opType, b.String(), golden)
		}
	}
}

func TestDescribeFaults(t *testing.T) {
	if err := ops.DescribeOp(&bytes.Buffer{}, "adma\x1b"); !errors.Is(err, fault.NotFound) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("an unknown op: %v", err)
	}
	full := errors.New("the pipe is closed")
	if err := ops.Describe(failing{full}); !errors.Is(err, full) {
		t.Errorf("writing to a closed pipe: %v", err)
	}
	if err := ops.DescribeOp(failing{full}, "adam"); !errors.Is(err, full) {
		t.Errorf("writing to a closed pipe: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestEverythingIsDocumented holds all families to one standard: users read these texts on the terminal.
func TestEverythingIsDocumented(t *testing.T) {
	for _, d := range ops.All() {
		if !strings.HasSuffix(d.Summary(), ".") {
			t.Errorf("the documentation of %s does not begin with a sentence: %q", d.Type, d.Doc)
		}
		for _, s := range append(append([]ops.Slot(nil), d.Inputs...), d.Outputs...) {
			if s.Doc == "" {
				t.Errorf("slot %s of %s is not documented", s.Name, d.Type)
			}
		}
		for _, a := range d.Attrs {
			if a.Doc == "" {
				t.Errorf("attribute %s of %s is not documented", a.Name, d.Type)
			}
		}
	}
}
