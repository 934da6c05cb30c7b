package edlcmd

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/tracing"
)

// traceFlags are the flags of "edl listen" for traces of rounds.
type traceFlags struct {
	url   string
	every int64

	collector tracing.Collector // of check
}

func (f *traceFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "otlp", "", "send traces of rounds to the OpenTelemetry collector at `URL`, as OTLP over HTTP (default: OTEL_EXPORTER_OTLP_ENDPOINT; without it none are made)")
	flags.Int64Var(&f.every, "trace-rounds", 100, "trace each `N`-th round of a job; 0: none")
}

// check finds the collector, and refuses flags that do not go together.
func (f *traceFlags) check(cmd *cobra.Command) (err error) {
	if f.every < 0 {
		return fault.E(fault.InvalidArgument, fault.At("--trace-rounds"), fault.Gotf("%d", f.every), fault.Want("0 or more"))
	}
	if f.collector, err = tracing.CollectorOf(f.url, os.Getenv); err != nil || f.collector.URL != "" {
		return err
	}
	return refuseIdle(cmd.Flags(), []string{"trace-rounds"}, "no collector of traces", "--otlp URL")
}

func (f *traceFlags) on() bool { return f.collector.URL != "" && f.every > 0 }

// begin traces the rounds of a listener's jobs. The function that it returns ends that, and sends what is left.
func (f *traceFlags) begin(ctx context.Context, c *console, l *remote.Listener, log *slog.Logger) (t *tracing.Tracer, stop func(), err error) {
	client, _, err := attachAsViewer(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	t = tracing.New(tracing.Config{Source: tracing.Of(client), Collector: f.collector, Version: c.currentVersion().Version, Log: log})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.Run(running)
	}()
	return t, func() {
		cancel()
		<-ended
		client.Close()
	}, nil
}

// attachAsViewer makes a client of a listener of this process, which may look at all jobs and change none.
func attachAsViewer(ctx context.Context, l *remote.Listener) (*remote.Client, *credential.Authority, error) {
	file, err := credential.File()
	if err != nil {
		return nil, nil, err
	}
	authority, err := credential.OpenOrMake(file)
	if err != nil {
		return nil, nil, err
	}
	own, err := authority.IssueRenewing(credential.Name{Kind: credential.User, User: webUser, Access: credential.Viewer}, listen.CredentialLife)
	if err != nil {
		return nil, nil, err
	}
	asking, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	client, err := remote.Attach(asking, l.Address(), remote.WithCredentials(own))
	return client, authority, err
}
