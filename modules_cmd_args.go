// The argument structs of module cmd: one for each function that differs.
package main

type cmdRunArgs struct {
	Cmd               any
	Cwd               any  `def:"None"`
	Stdin             any  `def:"None"`
	Runas             any  `def:"None"`
	Group             any  `def:"None"`
	Shell             any  `def:"$SHELL"`
	PythonShell       any  `def:"None"`
	Env               any  `def:"None"`
	CleanEnv          bool `def:"False"`
	Template          any  `def:"None"`
	Rstrip            bool `def:"True"`
	Umask             any  `def:"None"`
	OutputEncoding    any  `def:"None"`
	OutputLoglevel    any  `def:"'debug'"`
	LogCallback       any  `def:"None"`
	HideOutput        bool `def:"False"`
	Timeout           any  `def:"None"`
	ResetSystemLocale any  `def:"True"`
	IgnoreRetcode     bool `def:"False"`
	Saltenv           any  `def:"None"`
	UseVt             bool `def:"False"`
	RedirectStderr    bool `def:"True"`
	Bg                bool `def:"False"`
	Password          any  `def:"None"`
	EncodedCmd        bool `def:"False"`
	RaiseErr          bool `def:"False"`
	PrependPath       any  `def:"None"`
	SuccessRetcodes   any  `def:"None"`
	SuccessStdout     any  `def:"None"`
	SuccessStderr     any  `def:"None"`
	Kwargs            *Map `arg:"**kwargs"`
}

type cmdShellArgs struct {
	Cmd               any
	Cwd               any  `def:"None"`
	Stdin             any  `def:"None"`
	Runas             any  `def:"None"`
	Group             any  `def:"None"`
	Shell             any  `def:"$SHELL"`
	Env               any  `def:"None"`
	CleanEnv          bool `def:"False"`
	Template          any  `def:"None"`
	Rstrip            bool `def:"True"`
	Umask             any  `def:"None"`
	OutputEncoding    any  `def:"None"`
	OutputLoglevel    any  `def:"'debug'"`
	LogCallback       any  `def:"None"`
	HideOutput        bool `def:"False"`
	Timeout           any  `def:"None"`
	ResetSystemLocale any  `def:"True"`
	IgnoreRetcode     bool `def:"False"`
	Saltenv           any  `def:"None"`
	UseVt             bool `def:"False"`
	Bg                bool `def:"False"`
	Password          any  `def:"None"`
	PrependPath       any  `def:"None"`
	SuccessRetcodes   any  `def:"None"`
	SuccessStdout     any  `def:"None"`
	SuccessStderr     any  `def:"None"`
	Kwargs            *Map `arg:"**kwargs"`
}

type cmdStreamArgs struct {
	Cmd               any
	Cwd               any  `def:"None"`
	Stdin             any  `def:"None"`
	Runas             any  `def:"None"`
	Group             any  `def:"None"`
	Shell             any  `def:"$SHELL"`
	PythonShell       any  `def:"None"`
	Env               any  `def:"None"`
	CleanEnv          bool `def:"False"`
	Template          any  `def:"None"`
	Rstrip            bool `def:"True"`
	Umask             any  `def:"None"`
	OutputEncoding    any  `def:"None"`
	OutputLoglevel    any  `def:"'debug'"`
	LogCallback       any  `def:"None"`
	HideOutput        bool `def:"False"`
	Timeout           any  `def:"None"`
	ResetSystemLocale any  `def:"True"`
	IgnoreRetcode     bool `def:"False"`
	Saltenv           any  `def:"None"`
	UseVt             bool `def:"False"`
	Password          any  `def:"None"`
	PrependPath       any  `def:"None"`
	SuccessRetcodes   any  `def:"None"`
	SuccessStdout     any  `def:"None"`
	SuccessStderr     any  `def:"None"`
	Kwargs            *Map `arg:"**kwargs"`
}

type cmdRunAllArgs struct {
	Cmd               any
	Cwd               any  `def:"None"`
	Stdin             any  `def:"None"`
	Runas             any  `def:"None"`
	Group             any  `def:"None"`
	Shell             any  `def:"$SHELL"`
	PythonShell       any  `def:"None"`
	Env               any  `def:"None"`
	CleanEnv          bool `def:"False"`
	Template          any  `def:"None"`
	Rstrip            bool `def:"True"`
	Umask             any  `def:"None"`
	OutputEncoding    any  `def:"None"`
	OutputLoglevel    any  `def:"'debug'"`
	LogCallback       any  `def:"None"`
	HideOutput        bool `def:"False"`
	Timeout           any  `def:"None"`
	ResetSystemLocale any  `def:"True"`
	IgnoreRetcode     bool `def:"False"`
	Saltenv           any  `def:"None"`
	UseVt             bool `def:"False"`
	RedirectStderr    bool `def:"False"`
	Password          any  `def:"None"`
	EncodedCmd        bool `def:"False"`
	PrependPath       any  `def:"None"`
	SuccessRetcodes   any  `def:"None"`
	SuccessStdout     any  `def:"None"`
	SuccessStderr     any  `def:"None"`
	Kwargs            *Map `arg:"**kwargs"`
}

type cmdRetcodeArgs struct {
	Cmd               any
	Cwd               any  `def:"None"`
	Stdin             any  `def:"None"`
	Runas             any  `def:"None"`
	Group             any  `def:"None"`
	Shell             any  `def:"$SHELL"`
	PythonShell       any  `def:"None"`
	Env               any  `def:"None"`
	CleanEnv          bool `def:"False"`
	Template          any  `def:"None"`
	Umask             any  `def:"None"`
	OutputEncoding    any  `def:"None"`
	OutputLoglevel    any  `def:"'debug'"`
	LogCallback       any  `def:"None"`
	Timeout           any  `def:"None"`
	ResetSystemLocale any  `def:"True"`
	IgnoreRetcode     bool `def:"False"`
	Saltenv           any  `def:"None"`
	UseVt             bool `def:"False"`
	Password          any  `def:"None"`
	SuccessRetcodes   any  `def:"None"`
	SuccessStdout     any  `def:"None"`
	SuccessStderr     any  `def:"None"`
	Kwargs            *Map `arg:"**kwargs"`
}

type cmdRunBgArgs struct {
	Cmd               any
	Cwd               any  `def:"None"`
	Runas             any  `def:"None"`
	Group             any  `def:"None"`
	Shell             any  `def:"$SHELL"`
	PythonShell       any  `def:"None"`
	Env               any  `def:"None"`
	CleanEnv          bool `def:"False"`
	Template          any  `def:"None"`
	Umask             any  `def:"None"`
	Timeout           any  `def:"None"`
	OutputEncoding    any  `def:"None"`
	OutputLoglevel    any  `def:"'debug'"`
	LogCallback       any  `def:"None"`
	ResetSystemLocale any  `def:"True"`
	IgnoreRetcode     bool `def:"False"`
	Saltenv           any  `def:"None"`
	Password          any  `def:"None"`
	PrependPath       any  `def:"None"`
	SuccessRetcodes   any  `def:"None"`
	SuccessStdout     any  `def:"None"`
	SuccessStderr     any  `def:"None"`
	Kwargs            *Map `arg:"**kwargs"`
}

type cmdRunChrootArgs struct {
	Root              string
	Cmd               any
	Cwd               any  `def:"None"`
	Stdin             any  `def:"None"`
	Runas             any  `def:"None"`
	Group             any  `def:"None"`
	Shell             any  `def:"$SHELL"`
	PythonShell       any  `def:"True"`
	Binds             any  `def:"None"`
	Env               any  `def:"None"`
	CleanEnv          bool `def:"False"`
	Template          any  `def:"None"`
	Rstrip            bool `def:"True"`
	Umask             any  `def:"None"`
	OutputEncoding    any  `def:"None"`
	OutputLoglevel    any  `def:"'quiet'"`
	LogCallback       any  `def:"None"`
	HideOutput        bool `def:"False"`
	Timeout           any  `def:"None"`
	ResetSystemLocale any  `def:"True"`
	IgnoreRetcode     bool `def:"False"`
	Saltenv           any  `def:"None"`
	UseVt             bool `def:"False"`
	Bg                bool `def:"False"`
	SuccessRetcodes   any  `def:"None"`
	SuccessStdout     any  `def:"None"`
	SuccessStderr     any  `def:"None"`
	Kwargs            *Map `arg:"**kwargs"`
}

type cmdScriptArgs struct {
	Source            string
	Args              any  `def:"None"`
	Cwd               any  `def:"None"`
	Stdin             any  `def:"None"`
	Runas             any  `def:"None"`
	Group             any  `def:"None"`
	Shell             any  `def:"$SHELL"`
	PythonShell       any  `def:"None"`
	Env               any  `def:"None"`
	Template          any  `def:"None"`
	Umask             any  `def:"None"`
	OutputEncoding    any  `def:"None"`
	OutputLoglevel    any  `def:"'debug'"`
	LogCallback       any  `def:"None"`
	HideOutput        bool `def:"False"`
	Timeout           any  `def:"None"`
	ResetSystemLocale any  `def:"True"`
	Saltenv           any  `def:"None"`
	UseVt             bool `def:"False"`
	Bg                bool `def:"False"`
	Password          any  `def:"None"`
	SuccessRetcodes   any  `def:"None"`
	SuccessStdout     any  `def:"None"`
	SuccessStderr     any  `def:"None"`
	Kwargs            *Map `arg:"**kwargs"`
}

type cmdScriptRetcodeArgs struct {
	Source            string
	Args              any  `def:"None"`
	Cwd               any  `def:"None"`
	Stdin             any  `def:"None"`
	Runas             any  `def:"None"`
	Group             any  `def:"None"`
	Shell             any  `def:"$SHELL"`
	PythonShell       any  `def:"None"`
	Env               any  `def:"None"`
	Template          any  `def:"'jinja'"`
	Umask             any  `def:"None"`
	Timeout           any  `def:"None"`
	ResetSystemLocale any  `def:"True"`
	Saltenv           any  `def:"None"`
	OutputEncoding    any  `def:"None"`
	OutputLoglevel    any  `def:"'debug'"`
	LogCallback       any  `def:"None"`
	UseVt             bool `def:"False"`
	Password          any  `def:"None"`
	SuccessRetcodes   any  `def:"None"`
	SuccessStdout     any  `def:"None"`
	SuccessStderr     any  `def:"None"`
	Kwargs            *Map `arg:"**kwargs"`
}

type cmdExecCodeArgs struct {
	Lang   string
	Code   string
	Cwd    any  `def:"None"`
	Args   any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}
