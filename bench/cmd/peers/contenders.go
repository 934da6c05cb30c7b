package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/edl-go/edl/bench/peers"
	"github.com/edl-go/edl/fault"
)

// python is Debian's, which python3-torch is installed for.
const python = "/usr/bin/python3"

// openMP holds the OpenBLAS whose threads are those of OpenMP. PyTorch loads it at more than one thread: the threads of the default OpenBLAS fight
// with OpenMP's for the cores.
const openMP = "/usr/lib/x86_64-linux-gnu/openblas-openmp"

// A contender makes the command that measures a workload.
type contender func(ctx context.Context, workload string, threads int, seconds float64) *exec.Cmd

// prepare builds and finds all contenders; dir takes what is built.
func prepare(ctx context.Context, dir string) (map[string]contender, error) {
	if err := checkPyTorch(ctx); err != nil {
		return nil, err
	}
	script := filepath.Join(dir, "measure.py")
	if err := os.WriteFile(script, peers.Measure, 0o600); err != nil {
		return nil, err
	}
	torch := func(ctx context.Context, workload string, threads int, seconds float64) *exec.Cmd {
		cmd := command(ctx, workload, threads, seconds, python, script)
		if threads == 1 {
			cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1")
		} else {
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+openMP)
		}
		return cmd
	}
	all := map[string]contender{pytorch: torch, openblas: torch}
	for name, source := range map[string]string{edl: "measure", gorgonia: "gorgonia"} {
		program := filepath.Join(dir, source)
		build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/edl-go/edl/bench/cmd/"+source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", build, err, said)
		}
		all[name] = func(ctx context.Context, workload string, threads int, seconds float64) *exec.Cmd {
			return command(ctx, workload, threads, seconds, program)
		}
	}
	return all, nil
}

func command(ctx context.Context, workload string, threads int, seconds float64, program ...string) *exec.Cmd {
	arguments := append(program[1:], workload, fmt.Sprint(threads), fmt.Sprint(seconds))
	return exec.CommandContext(ctx, program[0], arguments...)
}

func checkPyTorch(ctx context.Context) error {
	missing := func(what string, err error) error {
		return fault.E(fault.NotFound, fault.Got("no "+what), fault.Want("Debian's PyTorch and OpenBLAS"), fault.Cause(err),
			fault.Hint("apt-get update && apt-get install -y python3-torch libopenblas0-openmp"))
	}
	if said, err := exec.CommandContext(ctx, python, "-c", "import torch").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return missing("PyTorch for "+python, fmt.Errorf("%w: %s", err, lines[len(lines)-1]))
	}
	if _, err := os.Stat(openMP); err != nil {
		return missing("OpenBLAS with OpenMP", err)
	}
	return nil
}
