package edlcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/kubernetes/operator"
)

// podLogs prints the lines that pods of a TrainingJob write, and before them those of pods that are gone.
type podLogs struct {
	console *console
	client  *operator.Client
	reader  *kubernetes.PodReader
	role    string // empty: all

	mu     sync.Mutex
	failed error // the first
}

// once prints what pods have written until now, one after the other.
func (l *podLogs) once(ctx context.Context, t *operator.TrainingJob) error {
	pods, err := l.reader.List(ctx, t.Status.Job)
	if err != nil {
		return err
	}
	roles, err := l.gone(ctx, t, pods)
	if err != nil {
		return err
	}
	for _, p := range pods {
		roles[p.Role] = true
		if l.role != "" && l.role != p.Role {
			continue
		}
		if err := l.reader.Log(ctx, p.Pod, false, func(line string) error { return l.print(p.Role, line) }); err != nil {
			return err
		}
	}
	if len(roles) == 0 || l.role != "" && !roles[l.role] {
		return errNoPods(t, l.role, slices.Sorted(maps.Keys(roles)))
	}
	return nil
}

// gone prints what starts of roles have written whose pods are not among these, and returns which roles have written something then.
func (l *podLogs) gone(ctx context.Context, t *operator.TrainingJob, pods []kubernetes.RolePod) (roles map[string]bool, _ error) {
	roles = map[string]bool{}
	whole, err := l.client.Log(ctx, t, func(role string, start int, line string) error {
		roles[role] = true
		there := slices.ContainsFunc(pods, func(p kubernetes.RolePod) bool { return p.Role == role && p.Start == start })
		if there || l.role != "" && l.role != role {
			return nil
		}
		return l.print(role, line)
	})
	switch {
	case errors.Is(err, fault.Denied):
		_, err = fmt.Fprintln(l.console.err, "the logs of pods that are gone may not be read:", err)
	case err == nil && !whole:
		_, err = fmt.Fprintln(l.console.err, "of pods that are gone, the first lines are left out")
	}
	return roles, err
}

// follow prints what pods write, also those that start later, until the job has ended.
func (l *podLogs) follow(ctx context.Context, client *operator.Client, t *operator.TrainingJob) error {
	if t.Ended() {
		return l.once(ctx, t)
	}
	reading, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	seen, first := map[string]bool{}, true // pods that are read, or were
	ticker := time.NewTicker(logAgain)
	defer ticker.Stop()
	for {
		if name := t.Status.Job; name != "" {
			pods, err := l.reader.List(ctx, name)
			if err != nil {
				return err
			}
			if first {
				first = false
				if _, err := l.gone(ctx, t, pods); err != nil {
					return err
				}
			}
			for _, p := range pods {
				if seen[p.Pod] || p.State == kubernetes.PodWaits || l.role != "" && l.role != p.Role {
					continue
				}
				seen[p.Pod] = true
				group.Go(func() {
					l.note(l.reader.Log(reading, p.Pod, true, func(line string) error { return l.print(p.Role, line) }))
				})
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		next, err := client.Get(ctx, t.Name)
		switch {
		case errors.Is(err, fault.NotFound) || err == nil && (next.UID != t.UID || next.Ended()):
			late := time.AfterFunc(callTime, stop) // the pods have ended with the job, and their logs end soon
			defer late.Stop()
			group.Wait()
			return l.first()
		case err != nil:
			return err
		}
		if t = next; l.first() != nil {
			return l.first()
		}
	}
}

// print prints a line. Pods write at the same time.
func (l *podLogs) print(role, line string) error {
	if l.role == "" {
		line = role + " | " + line
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := fmt.Fprintln(l.console.out, line)
	return err
}

// note keeps the first error of a pod that was read.
func (l *podLogs) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
}

func (l *podLogs) first() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}
