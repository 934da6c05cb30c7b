package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
)

// callTime bounds a question to a listener.
const callTime = 10 * time.Second

// findFlags say which listener is meant.
type findFlags struct{ listener string }

func (f *findFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.listener, "listener", "", "`ADDR` of the listener (default: the one that runs on this machine)")
}

// open connects to the listener that has a job, which may be empty. Without --listener it is looked for among those of this machine.
func (f *findFlags) open(ctx context.Context, name string) (*remote.Client, error) {
	if f.listener != "" {
		if err := checkAddress("--listener", f.listener); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		client, err := remote.Dial(ctx, f.listener)
		return client, unanswered(nil, err)
	}
	clients, err := listed(ctx)
	if err != nil {
		return nil, err
	}
	if len(clients) > 1 && name != "" {
		clients = having(ctx, clients, name)
	}
	switch len(clients) {
	case 1:
		return clients[0], nil
	case 0:
		want := "--listener ADDR"
		if name != "" {
			return nil, fault.E(fault.NotFound, fault.Got("no listener on this machine that has job "+fault.Quote(name)), fault.Want(want))
		}
		return nil, fault.E(fault.NotFound, fault.Got("no listener on this machine"), fault.Want(want),
			fault.Hint("\"edl run --remote\" and \"edl listen\" start one"))
	}
	var addresses []string
	for _, c := range clients {
		addresses = append(addresses, c.Address())
		c.Close()
	}
	return nil, fault.E(fault.InvalidArgument, fault.Got("several listeners on this machine: "+strings.Join(addresses, ", ")),
		fault.Want("--listener ADDR"))
}

// having closes the clients whose listeners do not have a job, and returns the others.
func having(ctx context.Context, clients []*remote.Client, name string) (have []*remote.Client) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for _, c := range clients {
		if _, err := c.Status(ctx, name); err != nil {
			c.Close()
			continue
		}
		have = append(have, c)
	}
	return have
}

// openJob connects to the listener of a job and returns the job's name. Without a name the job is the only one that runs, or the only one.
func (f *findFlags) openJob(ctx context.Context, args []string) (*remote.Client, string, error) {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	client, err := f.open(ctx, name)
	if err != nil || name != "" {
		return client, name, err
	}
	if name, err = onlyJob(ctx, client); err != nil {
		client.Close()
		return nil, "", err
	}
	return client, name, nil
}

func onlyJob(ctx context.Context, client *remote.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	jobs, err := client.Jobs(ctx)
	if err != nil {
		return "", err
	}
	var running, all []string
	for _, j := range jobs {
		if all = append(all, j.Job); !ended(j) {
			running = append(running, j.Job)
		}
	}
	where := "listener " + client.Address()
	switch {
	case len(running) == 1:
		return running[0], nil
	case len(all) == 1:
		return all[0], nil
	case len(all) == 0:
		return "", fault.E(fault.NotFound, fault.At(where), fault.Got("no job"))
	}
	return "", fault.E(fault.InvalidArgument, fault.At(where), fault.Got("several jobs: "+strings.Join(all, ", ")), fault.Want("the name of one"))
}

func ended(s *job.JobStatus) bool {
	return s.State == job.State_SUCCEEDED || s.State == job.State_FAILED || s.State == job.State_STOPPED
}
