import promptfoo from 'promptfoo';
import fs from 'fs';
let seed=7; const rnd=()=>{seed=(seed*1103515245+12345)%2147483648; return seed/2147483648;};
const pick=a=>a[Math.floor(rnd()*a.length)];
const asserts=[()=>({type:'contains',value:'ok'}),()=>({type:'contains',value:'ok'}),()=>({type:'equals',value:'ok hi'}),()=>({type:'contains',value:'nope'}),()=>({type:'javascript',value:'nothing.at.all'}),()=>({type:'contains',value:'nope',weight:0}),()=>({type:'contains',value:'ok',weight:5}),()=>({type:'javascript',value:'0.4'})];
const theirs={};
const provider=async(p)=>{ if(p.includes('boom')) throw new Error('provider 500'); if(p.includes('soft')) return {error:'API error: 500'}; return {output:'ok '+p,tokenUsage:{prompt:10,completion:5,total:15},cost:0.01}; };
provider.label='gen';
for(let i=0;i<200;i++){
  const good=rnd()<0.35, n=1+Math.floor(rnd()*5), tests=[];
  for(let t=0;t<n;t++){
    const q=good?pick(['hi','hey']):pick(['hi','hi','hi','hey','boom','soft']);
    const k=good?1+Math.floor(rnd()*2):Math.floor(rnd()*4), as=[];
    for(let a=0;a<k;a++) as.push(good?{type:'contains',value:'ok'}:pick(asserts)());
    const test={description:`t${t}`,vars:{q},assert:as}; if(!good&&rnd()<0.3) test.threshold=0.5;
    tests.push(test);
  }
  const repeat=rnd()<0.3?2:1;
  const r=await promptfoo.evaluate({prompts:['{{q}}'],providers:[provider],tests,writeLatestResults:false,outputPath:`out/${i}.json`},{repeat,cache:false,showProgressBar:false});
  const s=await r.toEvaluateSummary(); theirs[i]=(s.stats.failures+s.stats.errors)>0?100:0;
}
fs.writeFileSync('theirs.json',JSON.stringify(theirs)); process.exit(0);
