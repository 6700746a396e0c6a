// salt-swarm: thousands of minions from one process, to measure a master with.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func appletSwarm(args []string, std Stdio) int {
	p, code, done := parseCLI("salt-swarm", args, std)
	if done {
		return code
	}
	o, pki, err := swarmOptions(p, std)
	if err != nil {
		return p.UsageError(std, "%v", err)
	}
	fail := func(err error) int {
		fmt.Fprintf(std.Err, "salt-swarm: %v\n", err)
		return 1
	}
	began := time.Now()
	keys, made, err := loadSwarmKeys(p.Str("keys"), len(o.IDs))
	if err != nil {
		return fail(err)
	}
	if made > 0 {
		fmt.Fprintf(std.Err, "made %d keys in %.1f s; they are kept in %s\n", made, time.Since(began).Seconds(), p.Str("keys"))
	}
	o.Keys = keys
	if pki != "" {
		if err := preseed(pki, o.IDs, keys); err != nil {
			return fail(err)
		}
		if !p.Given("master") {
			return 0
		}
	}
	if err := enoughFiles(len(o.IDs)); err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if d := p.Float("duration"); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(d*float64(time.Second)))
		defer cancel()
	}
	return runSwarm(ctx, NewSwarm(o), p.Str("output") == "json", std)
}

// runSwarm runs a swarm and reports at its end. That all are there is told when
// it happens, beside the report.
func runSwarm(ctx context.Context, s *Swarm, asJSON bool, std Stdio) int {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(life)
	}()
	began := time.Now()
	arrived, ready := s.Arrived(), s.Ready()
	var report *Map
	for report == nil {
		select {
		case <-arrived:
			arrived = nil
			fmt.Fprintf(std.Err, "all %d minions are logged in and subscribed after %.2f s\n", len(s.minions), time.Since(began).Seconds())
		case <-ready:
			ready = nil
			fmt.Fprintf(std.Err, "ready\n")
		case <-ctx.Done():
			report = s.Report() // while they are all there
		}
	}
	stop()
	<-ended
	if asJSON {
		io.WriteString(std.Out, EncodeJSON(report, JSONOptions{Indent: 4})+"\n")
	} else {
		io.WriteString(std.Out, swarmText(report))
	}
	n, _ := toInt(report.Value("subscribed"))
	if int(n) < len(s.minions) {
		return 1
	}
	return 0
}

// swarmOptions reads the command line.
func swarmOptions(p *ParsedCLI, std Stdio) (o SwarmOptions, pki string, err error) {
	if len(p.Args) > 0 {
		return o, "", fmt.Errorf("no arguments are taken, only options: %q", p.Args[0])
	}
	n := p.Int("minions")
	if n < 1 || n > 60000 {
		return o, "", fmt.Errorf("-n: 1 to 60000 minions, not %d", n)
	}
	for i := range n {
		id := fmt.Sprintf("%s%05d", p.Str("prefix"), i+1)
		if err := ValidMinionID(id); err != nil {
			return o, "", fmt.Errorf("--prefix: %w", err)
		}
		o.IDs = append(o.IDs, id)
	}
	a, err := parseMaster(p.Str("master"), 4506)
	if err != nil {
		return o, "", fmt.Errorf("--%w", err)
	}
	if p.Float("request_timeout") <= 0 {
		return o, "", fmt.Errorf("--request-timeout: a time above zero, not %s", p.Str("request_timeout"))
	}
	o.Host, o.RetPort, o.PublishPort = a.Host, a.Port, p.Int("publish_port")
	o.Rate, o.Timeout = p.Float("rate"), time.Duration(p.Float("request_timeout")*float64(time.Second))
	o.Topics, o.Pillar, o.StartEvent = p.Bool("zmq_filtering"), p.Bool("pillar"), p.Bool("start_event")
	o.Grains = NewMap("os", "Swarm", "os_family", "Swarm", "kernel", "Linux", "saltversion", saltVersion, "swarm", true)
	o.Log = NewLogger(std.Err, p.Str("log_level"))
	if p.Str("keys") == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return o, "", fmt.Errorf("--keys: no directory given and none known: %w", err)
		}
		p.values.Set("keys", filepath.Join(cache, "salt-swarm"))
	}
	return o, p.Str("preseed"), nil
}

// enoughFiles checks that the process may open what a swarm needs.
func enoughFiles(n int) error {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return nil
	}
	if need := uint64(2*n + 64); lim.Cur < need {
		return fmt.Errorf("%d minions need %d open files, allowed are %d: raise the limit with `ulimit -n %d`", n, need, lim.Cur, need)
	}
	return nil
}
