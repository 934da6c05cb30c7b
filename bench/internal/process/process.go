// Package process runs measurements as processes of their own, and knows whether other processes have disturbed them.
package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// An Outcome is what a process printed, and the processor time of it and of others meanwhile.
type Outcome struct {
	Output []byte
	CPU    time.Duration // of the process and of its children that it has waited for
	Others float64       // cores that other processes used on average
}

// Run runs a process to its end. When it fails, the error has what it wrote to its standard error.
func Run(cmd *exec.Cmd) (Outcome, error) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	before, start := busy(), time.Now()
	if err := cmd.Run(); err != nil {
		return Outcome{}, fmt.Errorf("%s: %w\n%s", cmd, err, said.Bytes())
	}
	elapsed := time.Since(start)
	own := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	others := (busy() - before - own).Seconds() / elapsed.Seconds()
	return Outcome{out.Bytes(), own, max(0, others)}, nil
}

// Calm runs processes that make returns until one is undisturbed: until others used at most so many cores. It runs at most 1+retries of them and
// returns the outcome of the least disturbed one. All together take at most limit.
func Calm(ctx context.Context, limit time.Duration, retries int, cores float64, make func(context.Context) *exec.Cmd) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var best Outcome
	for try := range 1 + retries {
		now, err := Run(make(ctx))
		if err != nil {
			return Outcome{}, err
		}
		if try == 0 || now.Others < best.Others {
			best = now
		}
		if best.Others <= cores {
			break
		}
	}
	return best, nil
}

// clockTick is the unit of /proc/stat on Linux.
const clockTick = 10 * time.Millisecond

// busy returns the time that the cores of this machine have worked since its start. If that is unknown, busy returns 0, and no measurement counts
// as disturbed.
func busy() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, wait, interrupt, soft, steal int64
	if _, err := fmt.Sscanf(string(stat), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &interrupt, &soft, &steal); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+interrupt+soft+steal) * clockTick
}
