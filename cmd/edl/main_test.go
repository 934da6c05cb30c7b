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
