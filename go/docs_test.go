package rampmeter

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func goBlocks(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	var blocks []string
	for _, part := range strings.Split(string(text), "```go\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	return blocks
}

// runGo has the go command work on a program in an empty module, and returns what it prints.
func runGo(t *testing.T, program, command string) string {
	t.Helper()
	place := folder(t)
	here, err := os.Getwd()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(place, "main.go"), []byte(program), 0o600))
	module := "module example.com/my-program\ngo 1.19\nrequire rampmeter v0.0.0\nreplace rampmeter => " + here + "\n"
	must(t, os.WriteFile(filepath.Join(place, "go.mod"), []byte(module), 0o600))
	run := exec.Command("go", command, ".")
	run.Dir = place
	output, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, output, program)
	}
	return string(output)
}

func TestTheFirstExamplesOfThePagesRunAsPrinted(t *testing.T) {
	up := startUpstream(t, "--limit", "requests=12/1s") // A loaded machine starts calls late.
	s := scheduler(t, strings.Replace(limits(ten), `"api"`, `"my-api"`, 1))
	for page, printed := range map[string]string{
		"../docs/go.md": strings.Repeat("200\n", 20), "README.md": "200 OK\n",
	} {
		program := goBlocks(t, page)[0]
		program = strings.Replace(program, "http://127.0.0.1:9480", s.url, 1)
		program = strings.Replace(program, "http://127.0.0.1:9490", up.url, 1)
		if shown := runGo(t, program, "run"); shown != printed {
			t.Errorf("%s: %q", page, shown)
		}
	}
	if stats := up.stats(); stats.OK != 21 || stats.RateLimited != 0 {
		t.Errorf("%+v", stats)
	}
	if used := s.counter("granted") - s.counter("returned"); used != 21 {
		t.Error(used)
	}
}

func TestAllExamplesOfThePageCompile(t *testing.T) {
	program := bytes.NewBufferString(`package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"time"

	"rampmeter"
)

var (
	ctx    = context.Background()
	client = rampmeter.New("")
	api    = client.Resource("my-api")
	caller = http.Client{Timeout: time.Second}
	url    = ""
)

func main() { log.Print(errors.New("")) }
`)
	blocks := goBlocks(t, "../docs/go.md")[1:]
	for index, block := range blocks {
		fmt.Fprintf(program, "\nfunc example%d() error {\n%s\n\treturn nil\n}\n", index, block)
	}
	text := strings.Replace(program.String(), "caller := http.Client{Transport: tiles", "caller = http.Client{Transport: tiles", 1)
	runGo(t, text, "vet")
	if len(blocks) < 3 {
		t.Fatal(len(blocks))
	}
}

func TestThePackageHasTheTextsOfItsLicences(t *testing.T) {
	for _, licence := range []string{"LICENSE-APACHE", "LICENSE-MIT"} {
		ours, err := os.ReadFile(licence)
		must(t, err)
		theirs, err := os.ReadFile("../" + licence)
		must(t, err)
		if !bytes.Equal(ours, theirs) {
			t.Error(licence)
		}
	}
}
