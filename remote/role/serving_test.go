package role_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/remote/wire"
)

// A role whose server stops serving before its time ends, and says why: else the others would wait for one that nobody can reach.
func TestServerThatStops(t *testing.T) {
	for _, c := range []struct{ name, when string }{{"coordinator", "generation begins"}, {"pserver-0", "role starts"}} {
		t.Run(c.name, func(t *testing.T) {
			store := cluster.NewMemory()
			ctx, cancel := context.WithCancel(bounded(t))
			defer cancel()
			if err := open(t, store).SetDesired(ctx, 2); err != nil {
				t.Fatal(err)
			}
			specs := crew(t, 40)
			ends, told := make(chan ended, len(specs)), make(chan error, 1)
			port, now := &port{opened: make(chan struct{})}, make(chan struct{})
			for _, s := range specs {
				name := role.Name(s)
				options := role.Options{Registry: open(t, store)}
				if name == c.name {
					options = options.ListenBy(port.listen)
					options.Log = slog.New(slog.NewTextHandler(&sees{text: c.when, then: func() { close(now) }}, nil))
				}
				go func() {
					err := role.Run(ctx, s, options)
					if name == c.name {
						told <- err
					}
					ends <- ended{name, err}
				}()
			}
			<-now
			<-port.opened
			port.Close()
			err := <-told
			if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "serve on") {
				t.Errorf("it ends with %v", err)
			}
			cancel()
			for range specs {
				<-ends
			}
		})
	}
}

// port is a listener that is closed under its server.
type port struct {
	net.Listener
	opened chan struct{}
}

func (p *port) listen(ctx context.Context, address string) (net.Listener, error) {
	var err error
	p.Listener, err = wire.Listen(ctx, address)
	close(p.opened)
	return p.Listener, err
}
