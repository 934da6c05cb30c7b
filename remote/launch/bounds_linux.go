package launch

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// ownMemory is what a process has for itself, in bytes: RssAnon and RssShmem of proc(5).
func ownMemory(pid int) (bytes int64, ok bool) {
	f, err := os.Open(procFile(pid, "status"))
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if name != "RssAnon" && name != "RssShmem" {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 53)
		if err != nil {
			return 0, false
		}
		bytes, ok = bytes+kib<<10, true
	}
	return bytes, ok
}

// giveWay is by how much the kernel prefers a role to others when memory is short and it has to end a process: half of the machine's memory, in thousandths. So
// listeners and keepers stay, and with them other jobs.
const giveWay = 500

// endFirst lets the kernel end a process before those that have started it, when the machine has no memory left. Where the system does not allow it, it stays as it was.
func endFirst(pid int) {
	file := procFile(pid, "oom_score_adj")
	b, err := os.ReadFile(file)
	if now, wrong := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && wrong == nil && now < giveWay {
		_ = os.WriteFile(file, []byte(strconv.Itoa(giveWay)), 0)
	}
}

func procFile(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }
