package kubernetes

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// pods follows the pods of a listener by one watch, however many there are.
type pods struct {
	api      *api
	selector string
	log      *slog.Logger

	mu    sync.Mutex
	by    map[string]*corev1.Pod   // the last pod of a start, by the name of its objects; nil: none was listed yet
	heard map[string]chan struct{} // closed when the pod of a start changes
}

// again is how long to wait for an API server that does not answer before it is asked again.
const again = time.Second

func newPods(a *api, selector string, log *slog.Logger) *pods {
	return &pods{api: a, selector: selector, log: log, heard: map[string]chan struct{}{}}
}

// follow keeps up with the cluster until ctx ends. What is known of pods stays while the API server does not answer.
func (p *pods) follow(ctx context.Context) {
	silent := ""
	for ctx.Err() == nil {
		err := p.listAndWatch(ctx)
		if err == nil || ctx.Err() != nil {
			silent = ""
			continue
		}
		if text := err.Error(); text != silent {
			silent = text
			p.log.Warn("the API server does not say what becomes of pods; roles that run go on", "error", err)
		}
		timer := time.NewTimer(again)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

func (p *pods) listAndWatch(ctx context.Context) error {
	list, err := p.api.pods(ctx, p.selector)
	if err != nil {
		return err
	}
	p.mu.Lock()
	before := p.by
	p.by = map[string]*corev1.Pod{}
	for i := range list.Items {
		pod := &list.Items[i]
		p.by[pod.Labels[LabelObject]] = pod
	}
	for name := range before {
		p.tell(name)
	}
	for name := range p.by {
		p.tell(name)
	}
	p.mu.Unlock()
	w, err := p.api.watchPods(ctx, p.selector, list.ResourceVersion)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case e, more := <-w.ResultChan():
			if !more {
				return nil // the server ends watches now and then
			}
			if err := p.take(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *pods) take(e watch.Event) error {
	if e.Type == watch.Error {
		if err := apierrors.FromObject(e.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
		return errors.New("the watch is too old")
	}
	pod, ok := e.Object.(*corev1.Pod)
	if !ok || e.Type == watch.Bookmark {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	name := pod.Labels[LabelObject]
	if e.Type == watch.Deleted {
		if have := p.by[name]; have != nil && have.UID == pod.UID {
			delete(p.by, name)
		}
	} else {
		p.by[name] = pod
	}
	p.tell(name)
	return nil
}

// tell wakes who waits for the pod of a start. p.mu is held.
func (p *pods) tell(name string) {
	if c := p.heard[name]; c != nil {
		close(c)
		delete(p.heard, name)
	}
}

// of returns the pod of a start, nil if there is none, and a channel that is closed when that changes.
func (p *pods) of(name string) (*corev1.Pod, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.heard[name]
	if c == nil {
		c = make(chan struct{})
		p.heard[name] = c
	}
	return p.by[name], c
}

// listed reports whether the cluster has said which pods there are.
func (p *pods) listed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by != nil
}

// forget is called when nobody waits for a start any more.
func (p *pods) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tell(name)
}
