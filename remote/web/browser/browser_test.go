// Package browser tests the pages of a listener in a real browser, with real processes. It is a module of its own, so that nobody else needs what it needs.
// "make dashboard" runs it. It takes chromium from the PATH, or from CHROMIUM, and skips without one.
package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds each wait of the test: nothing takes so long, but a machine may be slow.
const patience = time.Minute

// A stage is a listener with its pages.
type stage struct {
	t      *testing.T
	folder string
	binary string
	url    string // with a token
	env    []string
}

// edl is a command of edl in the folder of the test.
func (s *stage) edl(args ...string) *exec.Cmd {
	c := exec.Command(s.binary, args...)
	c.Dir, c.Env = s.folder, s.env
	return c
}

// run runs a command to its end.
func (s *stage) run(args ...string) {
	s.t.Helper()
	if out, err := s.edl(args...).CombinedOutput(); err != nil {
		s.t.Fatalf("edl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// start starts a command that goes on until the end of the test, and returns where its output goes.
func (s *stage) start(args ...string) *output {
	s.t.Helper()
	c, out := s.edl(args...), &output{}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
	})
	return out
}

// output is what a process writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// newStage builds edl and starts a listener with pages.
func newStage(t *testing.T) *stage {
	t.Helper()
	folder := t.TempDir()
	s := &stage{t: t, folder: folder, binary: filepath.Join(folder, "edl")}
	s.env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(folder, "state"), "XDG_RUNTIME_DIR="+filepath.Join(folder, "run"))
	build := exec.Command("go", "build", "-o", s.binary, "./cmd/edl")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.run("demo", "--count", "600", "-o", "demo")
	out := s.start("listen", "--addr", "127.0.0.1:0", "--data-dir", filepath.Join(folder, "kept"), "--web", "--quiet")
	s.url = s.until(out, `dashboard at (\S+)\n`)
	return s
}

// until waits until output has a pattern, and returns what its parentheses hold.
func (s *stage) until(out *output, pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	var found string
	s.poll(pattern, func() bool {
		m := re.FindStringSubmatch(out.String())
		if m != nil {
			found = m[1]
		}
		return m != nil
	})
	return found
}

// poll waits until a condition holds.
func (s *stage) poll(what string, holds func() bool) {
	s.t.Helper()
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !holds() {
		select {
		case <-every.C:
		case <-deadline.C:
			s.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// pid asks the listener for the process of a role.
func (s *stage) pid(job, role string) int {
	s.t.Helper()
	base, token, _ := strings.Cut(s.url, "/#token=")
	q, err := http.NewRequest(http.MethodGet, base+"/api/jobs/"+job, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	page := map[string]json.RawMessage{}
	b, err := io.ReadAll(a.Body)
	if err != nil || json.Unmarshal(b, &page) != nil {
		s.t.Fatalf("%v: %s", err, b)
	}
	var row struct{ Pid int }
	_ = json.Unmarshal(page["role/"+role], &row)
	return row.Pid
}

// A tab is a page in chromium.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu   sync.Mutex
	said []string // on the console. Nobody says anything there when all is well
}

// newTab starts chromium.
func newTab(t *testing.T) *tab {
	t.Helper()
	path := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); path == "" && err == nil {
			path = found
		}
	}
	if path == "" {
		t.Skip("no chromium on this machine: install Debian's package, or name one in CHROMIUM")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 900))
	allocated, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.said = append(b.said, e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if !strings.Contains(e.Entry.URL, "favicon") {
				b.said = append(b.said, e.Entry.Text+" "+e.Entry.URL)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

// open loads a page.
func (b *tab) open(url string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		b.t.Fatal(err)
	}
}

// value is what an expression is in the page.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits until all expressions hold.
func (b *tab) until(s *stage, what string, expressions ...string) {
	b.t.Helper()
	all := "Boolean((" + strings.Join(expressions, ") && (") + "))"
	defer func() {
		if b.t.Failed() {
			b.t.Logf("the page says:\n%s", value[string](b, `document.body.innerText.slice(0, 1500)`))
		}
	}()
	s.poll(what, func() bool { return value[bool](b, all) })
}

// says is whether an element has a text.
func says(selector, text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%q))`, selector, text)
}

// click clicks the first element that has a text.
func (b *tab) click(selector, text string) {
	b.t.Helper()
	if !value[bool](b, fmt.Sprintf(`(() => { const e = [...document.querySelectorAll(%q)].find((e) => e.textContent.includes(%q)); e?.click(); return Boolean(e); })()`, selector, text)) {
		b.t.Fatalf("there is no %s with %q", selector, text)
	}
}

// shoot keeps a picture of the page in the folder that SCREENSHOTS names.
func (b *tab) shoot(name string, width, height int64, scheme string) {
	b.t.Helper()
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		return
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media)
	var picture []byte
	if err == nil {
		err = chromedp.Do(b.ctx, chromedp.EmulateViewport(width, height))
	}
	value[bool](b, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
	if err == nil {
		picture, err = chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644)
	}
	if err == nil {
		err = chromedp.Do(b.ctx, chromedp.EmulateViewport(1280, 900))
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// A user who opens the page sees which job does not go on and because of whom, follows it live, and takes a report along.
func TestDashboard(t *testing.T) {
	b := newTab(t)
	s := newStage(t)
	if err := os.WriteFile(filepath.Join(s.folder, "digits.yaml"), []byte("name: digits\ndata: {train: demo/data/train-*}\ntrainers: 3\npservers: 2\npasses: 1000000\nlease: 60s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.open(s.url)
	b.until(s, "the empty dashboard", says("main", "No job yet"), says(".why", "No job runs."))
	if address := value[string](b, `location.href`); strings.Contains(address, "token") {
		t.Errorf("the token stays in the address: %s", address)
	}
	s.start("run", "demo/program.pb", "-f", "digits.yaml", "--fetch", "accuracy", "--remote="+s.listener())
	b.until(s, "a job that runs", says("tbody th", "digits"), says(".state", "running"), says(".why", "All jobs that run go on."))
	b.shoot("overview-light", 1280, 400, "light")

	b.click("tbody a", "digits")
	b.until(s, "the page of the job", says("h1", "Job digits"), says("figcaption", "loss"), says("figcaption", "accuracy"), `document.querySelectorAll(".roles tbody tr").length === 6`,
		`document.querySelectorAll(".roles .bar").length >= 5`, says(".why", "The job goes on."))
	const steps = `[...document.querySelectorAll("dt")].find((e) => e.textContent === "Steps").nextSibling.textContent`
	before := value[string](b, steps)
	value[bool](b, `new PerformanceObserver((l) => { for (const e of l.getEntries()) window.shift = (window.shift ?? 0) + e.value; }).observe({ type: "layout-shift" }) === undefined`)
	b.until(s, "more steps", fmt.Sprintf("%s !== %q", steps, before))
	before = value[string](b, steps)
	b.until(s, "still more steps", fmt.Sprintf("%s !== %q", steps, before))
	if shift := value[float64](b, `window.shift ?? 0`); shift > 0.05 {
		t.Errorf("the page moves while it is read: layout shift %.3f", shift)
	}
	b.click("button", "Of a trainer")
	b.until(s, "the program", `document.querySelector(".picture img")?.naturalWidth > 100`)
	b.click("summary", "Lines of all roles")
	b.until(s, "the log", says("pre", "trainer-0: "))
	b.shoot("job-light", 1280, 1050, "light")
	b.shoot("job-dark", 1280, 1500, "dark")
	b.shoot("job-phone", 390, 1500, "light")

	pid := s.pid("digits", "trainer-1")
	if pid == 0 {
		t.Fatal("trainer-1 has no process")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	b.click("#home", "EDL")
	b.until(s, "the name of who holds the job up", says(".why.stalled", "trainer 1"))
	b.shoot("stalled-light", 1280, 400, "light")
	b.click(".why a", "digits")
	b.until(s, "the row of the trainer", says(".roles tbody tr:first-child th", "trainer-1"), says(".roles tbody tr:first-child .held", "wait"))
	b.shoot("stalled-dark", 1280, 1230, "dark")
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.until(s, "the job to go on", says(".why:not(.stalled)", "The job goes on."))

	s.run("report", "digits", "--listener", s.listener(), "-o", "report.html")
	b.open("file://" + filepath.Join(s.folder, "report.html"))
	b.until(s, "the report", says("#where", "report of job digits"), says("figcaption", "loss"), `document.querySelectorAll(".roles .bar").length >= 5`, says("pre", "trainer-0: "))
	b.shoot("report-light", 1280, 1500, "light")
	b.mu.Lock()
	said := strings.Join(b.said, "\n")
	b.mu.Unlock()
	if said != "" {
		t.Errorf("the console says:\n%s", said)
	}
	// The jobs of one namespace, by the address and by choice. Who chooses with the keyboard may choose again at once.
	s.run("submit", "demo/program.pb", "--data", "train=demo/data/train-*", "--passes", "1", "--namespace", "ads", "--name", "clicks", "--listener", s.listener())
	base, _, _ := strings.Cut(s.url, "#")
	b.open(base)
	b.until(s, "jobs of two namespaces", says("tbody th", "ads.clicks"), says("tbody th", "digits"), says("#namespace option", "ads"))
	b.shoot("namespace-light", 1280, 400, "light")
	b.open(base + "#/namespace/ads")
	b.until(s, "jobs of one namespace", says("h1", "Jobs in the namespace ads"), says("tbody th", "ads.clicks"), `document.querySelectorAll("tbody tr").length === 1`,
		`document.querySelector("#namespace").value === "ads"`)
	b.click("tbody a", "ads.clicks")
	b.until(s, "the page of its job", says("h1", "Job ads.clicks"))
	b.click("#home", "EDL")
	b.until(s, "the namespace again", says("h1", "Jobs in the namespace ads"))
	value[bool](b, `(() => { const e = document.querySelector("#namespace"); e.focus(); e.value = ""; e.dispatchEvent(new Event("change")); return true; })()`)
	b.until(s, "all jobs again", says("tbody th", "digits"), says("tbody th", "ads.clicks"), `document.activeElement.id === "namespace"`)

	b.open(base)
	value[bool](b, `sessionStorage.clear() === undefined`)
	b.open(base + "?again")
	b.until(s, "a page that asks for a token", says("h1", "A token is needed"))
}

// listener is the address of the listener: the page says so.
func (s *stage) listener() string {
	files, err := filepath.Glob(filepath.Join(s.folder, "run", "edl", "listeners", "*.json"))
	if err != nil || len(files) != 1 {
		s.t.Fatal(errors.Join(err, fmt.Errorf("%d listeners", len(files))))
	}
	b, err := os.ReadFile(files[0])
	var listed struct{ Address string }
	if err != nil || json.Unmarshal(b, &listed) != nil {
		s.t.Fatalf("%v: %s", err, b)
	}
	return listed.Address
}
