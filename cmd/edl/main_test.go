package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// TestMain makes the test binary be edl when a script, or edl itself, starts it under that name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"edl": main})
}

// TestScripts runs the command as users do. "go test -update" writes what it prints into the scripts.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("EDL_TESTDATA", os.Getenv("EDL_TESTDATA"))
			e.Setenv("XDG_RUNTIME_DIR", filepath.Join(e.WorkDir, "runtime")) // where listeners are listed: a script sees its own
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name == "testdata" {
				return os.Getenv("EDL_TESTDATA") != "", nil
			}
			return false, fmt.Errorf("unknown condition %s", name)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   exits,
			"program": writeProgram,
			"untimed": untimed,
			"spoil":   spoil,
			"oneline": oneline,
			"address": address,
			"waitjob": waitJob,
			"until":   until,
			"pid":     pid,
			"signal":  sendSignal,
			"gone":    gone,
			"table":   table,
			"damage":  damage,
		},
	})
}

// exits runs a command that must end with an exit code: exits 2 edl show nothing.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		code = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d\n%s", code, want, ts.ReadFile("stderr"))
	}
}

// jobLine is what a run on a cluster says of its job.
var jobLine = regexp.MustCompile(`^job [a-z0-9-]+ on the listener at 127\.0\.0\.1:[0-9]+\n`)

// oneline checks that the last command wrote one line to standard error, beside the name of its job, which begins as a diagnostic of edl does.
func oneline(ts *testscript.TestScript, _ bool, _ []string) {
	text := jobLine.ReplaceAllString(ts.ReadFile("stderr"), "")
	if !strings.HasPrefix(text, "edl: ") || strings.Count(text, "\n") != 1 {
		ts.Fatalf("standard error is not one line of edl:\n%s", text)
	}
	if strings.Contains(text, "internal error") {
		ts.Fatalf("a bad input is called a bug of edl:\n%s", text)
	}
}

// address puts a free loopback address into a variable: address NAME.
func address(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], l.Addr().String())
	ts.Check(l.Close())
}

// writeProgram writes a small program of the DSL: program line FILE. All numbers of its first steps on small whole numbers are exact in
// float32, so that outputs can be compared to the letter.
func writeProgram(ts *testscript.TestScript, _ bool, args []string) {
	m := layers.NewModel()
	zero := layers.Constant(0)
	network := func(x layers.Variable) layers.Variable {
		return layers.FC(x, 1, layers.Param(layers.ParamAttr{Initializer: zero}), layers.Bias(layers.ParamAttr{Initializer: zero}),
			layers.Name("prediction"))
	}
	read := func(data string) []layers.Variable {
		table := layers.OpenDataset(m, data, layers.Field("x", layers.Dims(2)), layers.Field("y", layers.Dims(1)))
		return layers.Read(layers.Batch(table, 4))
	}
	loss := func(data string) layers.Variable {
		batch := read(data)
		return layers.Mean(layers.SquareErrorCost(network(batch[0]), batch[1]), layers.Name("loss"))
	}
	switch args[0] {
	case "line":
		optimizer.SGD(0.25).Minimize(loss("train"))
	case "test":
		loss("test")
	case "fed":
		x, y := layers.Data(m, "x", layers.Dims(2)), layers.Data(m, "y", layers.Dims(1))
		optimizer.SGD(0.25).Minimize(layers.Mean(layers.SquareErrorCost(network(x), y), layers.Name("loss")))
	case "diverging":
		optimizer.SGD(1e30).Minimize(loss("train"))
	case "infinite": // fetches values that are no numbers
		x := layers.Data(m, "x", layers.Dims(1))
		layers.Log(x, layers.Name("log"))
		layers.Cast(x, tensor.Int64, layers.Name("whole"))
	default:
		ts.Fatalf("no program %s", args[0])
	}
	p, err := m.Program()
	ts.Check(err)
	ts.Check(p.Save(ts.MkAbs(args[1])))
}
