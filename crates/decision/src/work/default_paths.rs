//! What a run may not change unless it is allowed to (Λ), and what counts as a test (Q): the default path globs, a row a tool. Owns the
//! rows, which docs/protected-paths.md shows. A path is protected because something reads it later, outside the sandbox, and does
//! what it says: a CI, git, an editor, a coding agent, a shell, a test runner.

/// One row: a tool and the globs of what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectedRow {
    /// The tool, or what several have in common.
    pub tool: &'static str,
    /// Its globs. One that ends with `/**` is also its folder itself, so that no link takes the folder's place.
    pub globs: &'static [&'static str],
}

const fn row(tool: &'static str, globs: &'static [&'static str]) -> ProtectedRow {
    ProtectedRow { tool, globs }
}

/// What runs on somebody else's machine, or on the user's, when it was changed: by default it may not be (Λ).
pub const PROTECTED_LAWS: &[ProtectedRow] = &[
    row("CreAleph", &["**/crealeph.toml", "**/.crealeph*", "**/.crealeph*/**"]),
    row("short names of Windows (`GITHUB~1`)", &["**/*~[0-9]", "**/*~[0-9]/**", "**/*~[0-9].{?,??,???}"]),
    row("policies at the top", &["policies/**", "policy/**"]),
    row("GitHub: Actions, Dependabot, Copilot", &["**/.github/**"]),
    row("code owners", &["**/CODEOWNERS"]),
    row("GitLab", &["**/.gitlab-ci*.{yml,yaml}", "**/.gitlab-ci/**", "**/.gitlab/**"]),
    row("Gitea, Forgejo", &["**/{.gitea,.forgejo}/**"]),
    row("CircleCI", &["**/.circleci/**"]),
    row("Travis CI", &["**/.travis.{yml,yaml}"]),
    row("Bitbucket", &["**/bitbucket-pipelines.{yml,yaml}"]),
    row("Drone, Woodpecker", &["**/.{drone,woodpecker}.{yml,yaml,jsonnet,star}", "**/.woodpecker/**"]),
    row("Jenkins", &["**/Jenkinsfile*", "**/.jenkins/**"]),
    row(
        "Azure Pipelines",
        &["**/{.,}azure-pipelines*.{yml,yaml}", "**/{.azure-pipelines,.azuredevops,.vsts-ci}/**"],
    ),
    row("AppVeyor", &["**/{.,}appveyor.{yml,yaml}"]),
    row("Buildkite", &["**/.buildkite/**", "**/{.,}buildkite.{yml,yaml,json}"]),
    row("Cirrus CI", &["**/.cirrus.{yml,yaml,star}"]),
    row("TeamCity, Bamboo, Space", &["**/{.teamcity,bamboo-specs}/**", "**/.space.kts"]),
    row(
        "Semaphore, Codefresh, Harness",
        &["**/{.semaphore,.codefresh,.harness}/**", "**/codefresh.{yml,yaml}"],
    ),
    row("Tekton, Prow, Zuul", &["**/{.tekton,.prow,zuul.d,.zuul.d}/**", "**/{.zuul,zuul,.prow}.{yml,yaml}"]),
    row("sourcehut", &["**/.builds/**", "**/.build.yml"]),
    row("cloud builds", &["**/{cloudbuild,buildspec}*.{yml,yaml,json}"]),
    row("Earthly, Dagger", &["**/Earthfile", "**/dagger.json"]),
    row(
        "other CI",
        &["**/.ci/**", "**/{.scrutinizer,.shippable,shippable,wercker,.vela,screwdriver,.packit}.{yml,yaml}"],
    ),
    row("bots", &["**/{renovate,.renovaterc}*", "**/.mergify.{yml,yaml}", "**/.mergify/**"]),
    row("git", &["**/{.gitattributes,.gitmodules,.gitconfig,.lfsconfig}"]),
    row("git hooks", &["**/{.githooks,.git-hooks,.hooks,git-hooks,githooks}/**"]),
    row("husky", &["**/.husky/**", "**/.huskyrc*"]),
    row(
        "pre-commit",
        &["**/.pre-commit-config.{yml,yaml}", "**/.pre-commit-hooks.{yml,yaml}", "**/prek.toml"],
    ),
    row("lefthook", &["**/{.,}lefthook*", "**/{.,}lefthook*/**"]),
    row(
        "overcommit, simple-git-hooks, others",
        &[
            "**/.overcommit.{yml,yaml}",
            "**/{.,}simple-git-hooks.{js,cjs,mjs,json}",
            "**/{.cargo-husky,.captainhook}/**",
            "**/{captainhook.json,grumphp.yml,.rusty-hook.toml}",
        ],
    ),
    row(
        "lint-staged, commitlint",
        &["**/{.lintstagedrc,lint-staged.config,.commitlintrc,commitlint.config}*"],
    ),
    row("VS Code, Visual Studio", &["**/{.vscode,.vs}/**", "**/*.code-workspace"]),
    row("JetBrains", &["**/{.idea,.fleet}/**"]),
    row(
        "other editors",
        &[
            "**/{.zed,.nova,.lapce,.helix}/**",
            "**/{.exrc,.vimrc,.nvimrc,.nvim.lua,.dir-locals.el,.dir-locals-2.el}",
            "**/*.sublime-project",
        ],
    ),
    row(
        "development containers",
        &[
            "**/{.devcontainer,.codesandbox,.idx}/**",
            "**/{.devcontainer.json,.gitpod.yml,.gitpod.Dockerfile,.replit}",
        ],
    ),
    row(
        "direnv, mise, asdf",
        &["**/.envrc", "**/{.direnv,.mise,mise,.config/mise}/**", "**/{.,}mise*.toml", "**/.tool-versions"],
    ),
    row("Claude Code", &["**/.claude/**", "**/CLAUDE*.md"]),
    row("Codex and others that read AGENTS.md", &["**/{.codex,.agents}/**", "**/{AGENTS,AGENT}*.md"]),
    row("Gemini, Qwen", &["**/{.gemini,.qwen}/**", "**/{GEMINI,QWEN}.md"]),
    row("MCP servers", &["**/{.,}mcp.json", "**/.mcp/**"]),
    row("Cursor", &["**/.cursor/**", "**/.cursor{rules,ignore,indexingignore}"]),
    row("Windsurf", &["**/.windsurf*", "**/.windsurf*/**"]),
    row("aider", &["**/.aider*", "**/.aider*/**"]),
    row(
        "Continue, Cline, Roo, Kilo Code",
        &[
            "**/{.continue,.clinerules,.roo,.kilocode}/**",
            "**/{.continuerc.json,.continuerules,.roomodes,.roorules*,.kilocodemodes}",
        ],
    ),
    row(
        "other coding agents",
        &[
            "**/{.augment,.junie,.opencode,.goose,.trae,.kiro,.crush,.factory,.openhands,.amazonq,.copilot}/**",
            "**/{.augment-guidelines,.goosehints,opencode.json,opencode.jsonc,crush.json,.crush.json,CRUSH.md,WARP.md,.rules}",
        ],
    ),
];

/// What decides whether the tests that ran are the tests that were there (Q). Only limited where `max_invariants` is set.
pub const PROTECTED_INVARIANTS: &[ProtectedRow] = &[
    row(
        "tests",
        &[
            "**/{tests,test,__tests__,spec,specs,testdata,__mocks__,__snapshots__,fixtures,e2e}/**",
            "**/*_{test,tests,spec}.*",
            "**/*.{test,tests,spec}.*",
            "**/*.{snap,feature,bats,t}",
            "**/*_unittest.*",
            "**/test_*.py",
            "**/{tests,test}.{rs,py,js,ts,go}",
            "**/*{Test,Tests,TestCase,IT,Spec}.{java,kt,kts,scala,groovy,cs,fs,vb,php,swift}",
        ],
    ),
    row("schemas", &["schemas/**", "**/*.schema.json"]),
    row(
        "project files",
        &[
            "**/{Cargo.toml,package.json,pyproject.toml,setup.py,setup.cfg,go.mod,go.work,pom.xml,Gemfile,composer.json,Package.swift,mix.exs,deno.json,deno.jsonc}",
            "**/*.{gradle,gradle.kts,csproj,fsproj,vbproj,sln,slnx,gemspec,cabal}",
            "**/{Directory.Build.props,Directory.Build.targets,global.json,nuget.config,gradle.properties}",
        ],
    ),
    row(
        "build files",
        &[
            "**/{Makefile,makefile,GNUmakefile,justfile,Justfile,.justfile,Taskfile.yml,Taskfile.yaml,Rakefile,noxfile.py,tasks.py,dodo.py,CMakeLists.txt,meson.build,build.rs,build.xml}",
            "**/*.{mk,mak}",
            "**/{BUILD,BUILD.bazel,WORKSPACE,WORKSPACE.bazel,MODULE.bazel,.bazelrc,.bazelversion}",
        ],
    ),
    row(
        "toolchains and their wrappers",
        &[
            "**/.cargo/**",
            "**/{rust-toolchain,rust-toolchain.toml,.python-version,.node-version,.nvmrc,.ruby-version,.java-version,.sdkmanrc}",
            "**/{gradlew,gradlew.bat,mvnw,mvnw.cmd}",
            "**/{gradle,.mvn}/**",
        ],
    ),
    row(
        "test runners of Python",
        &[
            "**/{conftest.py,pytest.ini,.pytest.ini,tox.ini,.coveragerc,.noserc,nose2.cfg,unittest.cfg,pytest.toml}",
            "**/{sitecustomize,usercustomize}.py",
            "**/*.{pth,pyc}",
        ],
    ),
    row(
        "test runners of JavaScript",
        &[
            "**/{jest,vitest,karma,playwright,cypress,ava,babel,webpack,vite,rollup,metro,wdio,nightwatch,testem}*.{config,conf,setup,workspace}.*",
            "**/{jest,vitest}.{setup,preset}*",
            "**/setupTests.*",
            "**/{.mocharc,.nycrc,.c8rc,.babelrc,.swcrc,.taprc,.jasmine}*",
            "**/{tsconfig,jsconfig}*.json",
            "**/{bunfig.toml,.yarnrc,.yarnrc.yml,.pnp.cjs,.pnp.loader.mjs,pnpm-workspace.yaml,.pnpmfile.cjs}",
            "**/.yarn/**",
        ],
    ),
    row(
        "other test runners",
        &[
            "**/{.rspec,phpunit.xml,phpunit.xml.dist,phpunit.dist.xml,codeception.yml,behat.yml,testng.xml,.config/nextest.toml,.nextest.toml}",
        ],
    ),
    row("libraries in the tree", &["**/{node_modules,site-packages,.venv,venv,vendor}/**"]),
    row(
        "modules that take the place of a test library",
        &[
            "**/{unittest,pytest,_pytest,pluggy,nose,nose2,hypothesis,doctest,mock,coverage}/**",
            "**/{unittest,pytest,_pytest,pluggy,nose,nose2,hypothesis,doctest,mock,coverage}.py",
        ],
    ),
    row("modules that take the place of Python's own", PYTHON_MODULES),
];

/// At the top of the tree or in `src`, from where `python -m` and test runners import first.
const PYTHON_MODULES: &[&str] = &[
    "{,src/}{__future__,__main__,abc,argparse,array,ast,asyncio,atexit,base64,bdb,binascii,bisect,builtins,bz2,calendar,cmd,code,codecs,codeop,collections,compileall,concurrent,configparser,contextlib,contextvars,copy,copyreg,csv,ctypes,curses,dataclasses,datetime,dbm,decimal,difflib,dis,email,encodings,enum,errno,faulthandler,fcntl,filecmp,fileinput,fnmatch,fractions,ftplib,functools,gc,genericpath,getopt,getpass,gettext,glob,graphlib,grp,gzip,hashlib,heapq,hmac,html,http,imaplib,importlib,inspect,io,ipaddress,itertools,json,keyword,linecache,locale,logging,lzma,mailbox,marshal,math,mimetypes,mmap,multiprocessing,netrc,ntpath,numbers,opcode,operator,optparse,os,pathlib,pdb,pickle,pickletools,pkgutil,platform,plistlib,poplib,posix,posixpath,pprint,profile,pstats,pty,pwd,py_compile,pyclbr,pydoc,queue,quopri,random,re,readline,reprlib,resource,runpy,sched,secrets,select,selectors,shelve,shlex,shutil,signal,site,smtplib,socket,socketserver,sqlite3,sre_compile,sre_constants,sre_parse,ssl,stat,statistics,string,stringprep,struct,subprocess,symtable,sys,sysconfig,syslog,tabnanny,tarfile,tempfile,termios,textwrap,this,threading,time,timeit,tkinter,token,tokenize,tomllib,trace,traceback,tracemalloc,tty,turtle,types,typing,unicodedata,urllib,uuid,venv,warnings,wave,weakref,webbrowser,wsgiref,xml,xmlrpc,zipapp,zipfile,zipimport,zlib,zoneinfo}{.py,.pyc,.so,/__init__.py}",
];

/// The globs of rows, in their order.
pub(super) fn globs(rows: &[ProtectedRow]) -> Vec<String> {
    rows.iter().flat_map(|row| row.globs).map(|glob| (*glob).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{DeltaClass, PathRules, PathRulesSource};

    /// Paths that a glob matches: one for each alternative in its first braces, at the top and below.
    fn samples(glob: &str) -> Vec<String> {
        if let Some((before, rest)) = glob.split_once('{') {
            let (choices, after) = rest.split_once('}').unwrap();
            let filled = choices.split(',').flat_map(|choice| samples(&format!("{before}{choice}{after}")));
            return filled.collect();
        }
        let plain = |glob: &str| {
            let inside =
                glob.strip_suffix("/**").map_or(glob.to_owned(), |folder| format!("{folder}/inside"));
            inside.replace("[0-9]", "1").replace(['*', '?'], "x")
        };
        match glob.strip_prefix("**/") {
            Some(rest) => vec![plain(rest), format!("a/deep/folder/{}", plain(rest))],
            None => vec![plain(glob)],
        }
    }

    /// Every row of docs/protected-paths.md, and every name in it, also in other letters and as a folder that a link replaces.
    #[test]
    fn every_row_protects_what_it_names() {
        let rules = PathRules::load(&PathRulesSource::default()).unwrap();
        for row in PROTECTED_LAWS {
            for path in row.globs.iter().flat_map(|glob| samples(glob)) {
                for name in [path.clone(), path.to_uppercase()] {
                    assert_eq!(rules.class_of(&name, None), DeltaClass::Laws, "{}: {name}", row.tool);
                    assert!(!rules.permits(&name), "{}: {name}", row.tool);
                }
                if let Some(folder) = path.strip_suffix("/inside") {
                    assert!(!rules.permits(folder), "{}: {folder}", row.tool);
                }
            }
        }
        for row in PROTECTED_INVARIANTS {
            for path in row.globs.iter().flat_map(|glob| samples(glob)) {
                assert_eq!(rules.class_of(&path, None), DeltaClass::Invariants, "{}: {path}", row.tool);
            }
        }
    }
}
