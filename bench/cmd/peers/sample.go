package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/bench/internal/measure"
)

// patience is how long one measurement may take.
const patience = 10 * time.Minute

// clockTick is the unit of /proc/stat on Linux.
const clockTick = 10 * time.Millisecond

// A sample is one measurement, with the cores that other processes used meanwhile.
type sample struct {
	measure.Result
	others float64
}

// take runs cmd, which prints a measurement.
func take(cmd *exec.Cmd) (sample, error) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	before, start := busy(), time.Now()
	if err := cmd.Run(); err != nil {
		return sample{}, fmt.Errorf("%s: %w\n%s", cmd, err, said.Bytes())
	}
	others, elapsed := busy()-before-cmd.ProcessState.UserTime()-cmd.ProcessState.SystemTime(), time.Since(start)
	result, err := measure.Read(out.Bytes())
	return sample{result, max(0, others.Seconds()/elapsed.Seconds())}, err
}

// calm takes a sample until one is undisturbed, a number of times at most, and returns the least disturbed one.
func calm(ctx context.Context, s settings, make func(context.Context) *exec.Cmd) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var best sample
	for try := range 1 + s.retries {
		now, err := take(make(ctx))
		if err != nil {
			return sample{}, err
		}
		if try == 0 || now.others < best.others {
			best = now
		}
		if best.others <= s.calm {
			break
		}
	}
	return best, nil
}

// busy returns the time that the cores of this machine have worked since it was started. Where that is not known it is 0, and no
// measurement counts as disturbed.
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

// A key says who measured what.
type key struct {
	contender, workload string
	threads             int
}

// measureAll takes s.rounds samples of all rows that s.run matches. In every round each row is measured by all contenders, one after the
// other, in an order that turns around from round to round. A contender that does not know a workload has no samples of it.
func measureAll(ctx context.Context, s settings, sections []section, all map[string]contender) (map[key][]sample, error) {
	samples := map[key][]sample{}
	for round := range s.rounds {
		for _, part := range sections {
			for _, r := range part.rows {
				if !s.run.MatchString(r.workload) {
					continue
				}
				for _, threads := range s.threads {
					turn := slices.Clone(part.contenders)
					if round%2 == 1 {
						slices.Reverse(turn)
					}
					for _, name := range turn {
						if !knows(name, r.workload) {
							continue
						}
						one, err := calm(ctx, s, func(ctx context.Context) *exec.Cmd { return all[name](ctx, r.workload, threads, s.seconds) })
						if err != nil {
							return nil, err
						}
						k := key{name, r.workload, threads}
						samples[k] = append(samples[k], one)
						fmt.Fprintf(os.Stderr, "round %d, %-8s %s, %d threads: %s, others used %.2f cores\n",
							round+1, name, r.workload, threads, duration(one.Median), one.others)
					}
				}
			}
		}
	}
	return samples, nil
}

// knows reports whether a contender has a workload.
func knows(contender, workload string) bool {
	return contender != gorgonia || strings.HasPrefix(workload, "mlp") || strings.HasPrefix(workload, "conv")
}
